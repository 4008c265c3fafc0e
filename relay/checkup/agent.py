"""Everything about an agent's configuration that needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from django.utils.translation import gettext as _

from relay.checkup.certificates import ca_bundle
from relay.checkup.environment import unknown_variables
from relay.checkup.files import configuration_file
from relay.checkup.finding import Finding, failed, passed, skipped, warned
from relay.checkup.tokens import token
from relay.policy import ANY, AllowRule
from tunnelmesh.conf.load import Loaded
from tunnelmesh.conf.schema import AgentConfig


def check_agent(loaded: Loaded[AgentConfig], *, now: datetime, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every finding about an agent's configuration that could be loaded."""
    config = loaded.value
    if loaded.path:
        yield configuration_file(loaded.path, holds_secret=config.token.is_literal)
    yield from unknown_variables(environ)
    yield passed("name", config.name)
    yield passed("servers", ", ".join(map(str, config.servers)))
    yield from token("token", config.token, prefixes=("tma_", "tmd_"))
    if config.pins:
        yield passed("pins", _("public keys that may answer: %(count)d") % {"count": len(config.pins)})
    if config.ca:
        yield from ca_bundle("ca", config.ca, now=now)
    yield from _allow_list(config.allow)
    yield skipped("servers.reachable", _("needs the network"))


def _allow_list(texts: tuple[str, ...]) -> Iterator[Finding]:
    rules = []
    for text in texts:
        try:
            rules.append(AllowRule.parse(text))
        except ValueError as error:
            yield failed("allow", str(error), _('For example "127.0.0.1:8080" or "10.0.0.0/8:443".'))
    wide = [rule for rule in rules if rule.host == ANY]
    for rule in wide:
        text = _("%(rule)s lets the fleet reach every host that this one reaches") % {"rule": rule}
        yield warned("allow", text, _("Name the hosts or networks that are meant."))
    if not texts:
        yield warned("allow", _("empty: this agent reaches nothing"), _('Name its services: allow: ["127.0.0.1:8080"]'))
    elif len(rules) > len(wide):
        yield passed("allow", _("rules that name what they allow: %(count)d") % {"count": len(rules) - len(wide)})
