"""Certificates, keys and CA bundles, judged by what reads them: our own TLS contexts and OpenSSL's own verification."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from cryptography import x509
from django.utils.translation import gettext as _

from relay.checkup.files import private_key, unreadable
from relay.checkup.finding import Finding, Outcome, failed, passed, skipped, warned
from relay.net import tls
from tunnelmesh.conf.schema import AgentsSection, RelaySection


def relay_files(relay: RelaySection, *, node_id: str | None, now: datetime) -> Iterator[Finding]:
    """The node's mutual TLS: every file, whether they belong together, and whether other nodes will accept them."""
    paths = {"server.relay.ca": relay.ca, "server.relay.cert": relay.cert, "server.relay.key": relay.key}
    missing = [check for check, path in paths.items() if path is None]
    yield from (failed(check, _("not given, and cluster mode needs it"), _see_example(check)) for check in missing)
    if relay.ca is None or relay.cert is None or relay.key is None:
        return
    authority = list(ca_bundle("server.relay.ca", relay.ca, now=now))
    pair = list(_pair("server.relay", relay.cert, relay.key, now=now))
    yield from (*authority, *pair)
    if _any_failed(pair):
        yield skipped("server.relay.names", _("the certificate or its key cannot be used"))
    else:
        yield _names(relay.cert, node_id)
        yield from _may_sign(relay.cert)
    if _any_failed(authority) or _any_failed(pair):
        yield skipped("server.relay.chain", _("the files above must be right first"))
    else:
        yield from _accepted(relay.ca, relay.cert, relay.key)


def agents_files(agents: AgentsSection, *, now: datetime) -> Iterator[Finding]:
    """The certificate that agents see; its pin is what they configure."""
    if agents.cert is None or agents.key is None:
        yield skipped("server.agents.cert", _("not given: this node takes no agents"))
        return
    pair = list(_pair("server.agents", agents.cert, agents.key, now=now))
    yield from pair
    if not _any_failed(pair):
        pin = tls.public_key_pin(tls.certificate_of(agents.cert))
        yield passed("server.agents.pin", _("agents verify this node by the pin %(pin)s") % {"pin": pin})


def ca_bundle(check: str, path: Path, *, now: datetime) -> Iterator[Finding]:
    """Every certificate of the bundle can be read, and none has ended."""
    if problem := unreadable(check, path):
        yield problem
        return
    try:
        authorities = x509.load_pem_x509_certificates(path.read_bytes())
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (OSError, ValueError) as error:
        text = _("%(path)s is no bundle of PEM certificates: %(cause)s") % {"path": path, "cause": error}
        yield failed(check, text, _("Look: openssl storeutl -noout -text %(path)s") % {"path": path})
        return
    ended = [authority for authority in authorities if authority.not_valid_after_utc <= now]
    for authority in ended:
        text = _("%(path)s: the authority %(name)s ended on %(day)s")
        values = {"path": path, "name": authority.subject.rfc4514_string(), "day": _day(authority.not_valid_after_utc)}
        yield warned(check, text % values, _("Remove it from the bundle, or put its successor in."))
    if len(ended) == len(authorities):
        text = _("%(path)s has no authority that is still valid") % {"path": path}
        yield failed(check, text, _("Get the fleet's present bundle."))
    else:
        yield passed(check, _("%(path)s, certificates: %(count)d") % {"path": path, "count": len(authorities)})


def _pair(section: str, cert: Path, key: Path, *, now: datetime) -> Iterator[Finding]:
    """Certificate and key: readable, closed, belonging together, in their time."""
    problems = [unreadable(f"{section}.cert", cert), unreadable(f"{section}.key", key)]
    if any(problems):
        yield from filter(None, problems)
        return
    yield private_key(f"{section}.key", key)
    try:
        certificate = x509.load_der_x509_certificate(tls.certificate_of(cert))
        tls.agents_server_context(cert=cert, key=key)
    except tls.TlsFileError as error:
        hint = _("Compare: openssl x509 -noout -pubkey -in %(cert)s; openssl pkey -pubout -in %(key)s")
        yield failed(f"{section}.cert", str(error), hint % {"cert": cert, "key": key})
        return
    yield passed(f"{section}.cert", _("%(cert)s matches %(key)s") % {"cert": cert, "key": key})
    yield _validity(f"{section}.validity", certificate, now)


def _validity(check: str, certificate: x509.Certificate, now: datetime) -> Finding:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    renew = _("Have a new certificate signed for the same key or a new one, and replace the files.")
    if now < start:
        return failed(check, _("not valid before %(day)s") % {"day": _day(start)}, _("Compare the clock: date -u"))
    if end <= now:
        return failed(check, _("ended on %(day)s") % {"day": _day(end)}, renew)
    values = {"day": _day(end), "days": (end - now).days}
    if now >= start + (end - start) / 2:
        return warned(check, _("past half of its life; it ends on %(day)s, in %(days)d days") % values, renew)
    return passed(check, _("until %(day)s, %(days)d days") % values)


def _names(cert: Path, node_id: str | None) -> Finding:
    """The one DNS name without a dot is the node id, byte for byte; other names are ignored (design.md, section 3)."""
    check = "server.relay.names"
    names = tls.dns_names(tls.certificate_of(cert))
    dotless = [name for name in names if "." not in name]
    hint = _("Have a certificate signed with subjectAltName=DNS:%(id)s") % {"id": node_id or "<node.id>"}
    if len(dotless) != 1:
        found = ", ".join(map(ascii, names)) or _("none")
        text = _("exactly one DNS name without a dot is needed, found %(count)d; all DNS names: %(names)s")
        return failed(check, text % {"count": len(dotless), "names": found}, hint)
    if node_id is None:
        return skipped(check, _("found %(name)s, and the node has no id yet") % {"name": ascii(dotless[0])})
    if dotless[0] != node_id:
        text = _("the certificate is for %(name)s, and this node is %(id)s")
        return failed(check, text % {"name": ascii(dotless[0]), "id": node_id}, hint)
    return passed(check, _("%(id)s, this node's id, is the one DNS name without a dot") % {"id": node_id})


def _may_sign(cert: Path) -> Iterator[Finding]:
    """Whoever holds an authority's certificate can make one for every node, and the others would believe it (F9)."""
    certificate = x509.load_der_x509_certificate(tls.certificate_of(cert))
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return  # what cannot be read has its finding elsewhere
    if is_authority:
        yield warned(
            "server.relay.cert",
            _("it may sign certificates of other nodes (CA:TRUE): whoever has its key can be every node"),
            _("Have a new certificate signed with basicConstraints=critical,CA:FALSE"),
        )


def _accepted(ca: Path, cert: Path, key: Path) -> Iterator[Finding]:
    """Two handshakes in memory, so that OpenSSL itself judges chain and usages as it will when nodes meet."""
    own_client = tls.relay_client_context(ca=ca, cert=cert, key=key)
    as_acceptor = _handshake(server=tls.agents_server_context(cert=cert, key=key), client=own_client)
    trusting_client = tls.relay_client_context(ca=ca, cert=cert, key=key)
    trusting_client.verify_mode = ssl.CERT_NONE
    as_dialler = _handshake(server=tls.relay_server_context(ca=ca, cert=cert, key=key), client=trusting_client)
    for usage, refusal in (("serverAuth", as_acceptor), ("clientAuth", as_dialler)):
        check = f"server.relay.chain.{usage}"
        if refusal:
            text = _("a node with this CA bundle refuses the certificate: %(cause)s") % {"cause": refusal}
            hint = _("Look: openssl verify -CAfile %(ca)s -purpose any %(cert)s; it needs the extended usage %(usage)s")
            yield failed(check, text, hint % {"ca": ca, "cert": cert, "usage": usage})
        else:
            yield passed(check, _("signed by an authority of the bundle, and allowed for this use"))


def _handshake(*, server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Why the two would not talk, in OpenSSL's words; empty when they would."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return error.reason or str(error)
    return ""


def _any_failed(findings: list[Finding]) -> bool:
    return any(finding.outcome is Outcome.FAIL for finding in findings)


def _see_example(check: str) -> str:
    return _("Set %(key)s; the steps are in: tunnelmesh init_node_id") % {"key": check}


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
