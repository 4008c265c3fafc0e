"""A TLS handshake without sockets: what OpenSSL itself says about two sides."""

import ssl
from pathlib import Path

from relay.demo.pki import Authority, Pair


def exchange(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Run a handshake to its end and return both sides; raises ssl.SSLError from the side that refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = client.wrap_bio(to_client, to_server)
    accepting = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (dialling, accepting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return dialling, accepting


def handshake(*, server: Pair, client: Pair, ca: Authority, folder: Path) -> str | None:
    """The version that two pairs agree on when each trusts ``ca`` alone."""
    dialling = _context(ssl.Purpose.SERVER_AUTH, client, ca, folder)
    return exchange(dialling, _context(ssl.Purpose.CLIENT_AUTH, server, ca, folder))[1].version()


def _context(purpose: ssl.Purpose, pair: Pair, ca: Authority, folder: Path) -> ssl.SSLContext:
    made = ssl.create_default_context(purpose, cadata=ca.pair.cert_pem.decode())
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(*pair.write(folder, "pair"))
    return made
