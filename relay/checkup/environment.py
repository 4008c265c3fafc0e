"""Variables that look like ours and that nothing reads: most often a key that was mistyped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from django.utils.translation import gettext as _

from relay.checkup.finding import Finding, warned
from tunnelmesh.conf.load import variable
from tunnelmesh.conf.options import VARIABLE
from tunnelmesh.conf.schema import AgentConfig, ServerConfig, settings

# Read elsewhere: by the settings of the web process, and for the choice of the event loop.
_OTHERS: Final = (
    VARIABLE,
    "TUNNELMESH_ALLOWED_HOSTS",
    "TUNNELMESH_LOOP",
    "TUNNELMESH_SECRET_KEY",
    "TUNNELMESH_SECRET_KEY_FILE",
)


def unknown_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """A warning for every TUNNELMESH_ variable that is no key of a node's or an agent's; values are not shown."""
    known = {*_OTHERS, *(variable(key) for cls in (ServerConfig, AgentConfig) for key, _field in settings(cls))}
    for name in sorted(environ):
        if name.startswith("TUNNELMESH_") and name not in known:
            near = get_close_matches(name, sorted(known), n=1)
            hint = _("Did you mean %(name)s?") % {"name": near[0]} if near else _("Remove it.")
            yield warned("environment", _("%(name)s is set, and nothing reads it") % {"name": name}, hint)
