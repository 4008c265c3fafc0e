"""A TLS handshake without sockets: what OpenSSL itself says about two certificates."""

import ssl
from pathlib import Path

from relay.demo.pki import Authority, Pair


def context(purpose: ssl.Purpose, pair: Pair, ca: Authority, folder: Path) -> ssl.SSLContext:
    """TLS 1.3 only, mutual, trusting ``ca`` alone."""
    made = ssl.create_default_context(purpose, cadata=ca.pair.cert_pem.decode())
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_cert_chain(*pair.write(folder, "pair"))
    return made


def handshake(*, server: Pair, client: Pair, ca: Authority, folder: Path) -> str | None:
    """Run both sides to the end and return the version; raises ssl.SSLError from the side that refuses."""
    accepting = context(ssl.Purpose.CLIENT_AUTH, server, ca, folder)
    dialling = context(ssl.Purpose.SERVER_AUTH, client, ca, folder)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    a = dialling.wrap_bio(to_client, to_server)
    b = accepting.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (a, b):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return b.version()
