"""An agent: one session to each of its servers, and streams from there to the targets that its allow list names.

Runs without Django's ORM and without a database. What it may reach is judged here for every stream, whatever the node
has judged before (design.md, section 3: default deny).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from relay.bounds import backoff, dial_timeouts, session_limits
from relay.link import Down, Ended, Link
from relay.net import tls
from relay.net.channel import Channel
from relay.net.dialer import Dial, DialFailed, PeerMismatch, dial
from relay.net.engine import Engine
from relay.net.mux import Mux
from relay.net.pump import Pump
from relay.net.target import TargetDialer
from relay.net.tasks import Tasks
from relay.policy import AllowRule, may_reach
from relay.process import settle_memory
from relay.protocol.connect import ConnectRequest
from relay.protocol.errors import GoAwayCode
from relay.protocol.problem import Problem
from relay.protocol.upgrade import AGENT, UpgradeRequest
from tunnelmesh.common.clock import Clock, SystemClock
from tunnelmesh.common.errors import DomainError, ExitCode, Invalid, Refused
from tunnelmesh.conf.address import Address
from tunnelmesh.conf.schema import AgentConfig

log = logging.getLogger(__name__)

TARGET_TIMEOUT: Final = 10.0
"""Seconds for reaching a target: less than a node waits for the answer."""
PENDING_DIALS: Final = 256
"""Targets being dialled at a time (lessons: dials to a stuck target piled up without limit)."""
REMEMBERED: Final = 256
"""Refused targets that are named in the log; later ones only at DEBUG."""


class Agent:
    """One agent process. `links` are those to its servers, in the order of the configuration."""

    def __init__(self, config: AgentConfig, *, clock: Clock | None = None) -> None:
        """Raises DomainError for a configuration that cannot serve: a bad allow rule, CA file or token reference."""
        self.config = config
        self.clock = clock or SystemClock()
        self.context = _client_context(config)
        self.links: list[ServerLink] = []
        self._rules = allow_rules(config.allow)
        config.token.resolve()

    async def run(self, stop: asyncio.Event) -> ExitCode:
        """Serve until `stop` is set, then let open streams end for a bounded time."""
        engine = Engine(asyncio.get_running_loop(), self.clock.monotonic)
        targets = Targets(engine, self._rules)
        tasks = Tasks()
        engine.start()
        self.links = [ServerLink(self, server, engine, targets) for server in self.config.servers]
        for each in self.links:
            tasks.spawn(each.link.run(), name=f"link to {each.server}", critical=True)
        settle_memory()
        try:
            stopped = tasks.spawn(stop.wait(), name="wait for stop")
            await asyncio.wait([stopped, tasks.failed], return_when=asyncio.FIRST_COMPLETED)
            failed = tasks.failed.done()
        finally:
            await tasks.cancel()
            sessions = list(engine.muxes)
            await asyncio.gather(*(session.drain(self.config.limits.drain) for session in sessions))
            await targets.close()
            await engine.close()
        return ExitCode.FAILED if failed else ExitCode.OK


def allow_rules(texts: Iterable[str]) -> tuple[AllowRule, ...]:
    """The rules of `allow`. Raises Invalid that names the first bad one."""
    try:
        rules = tuple(AllowRule.parse(text) for text in texts)
    except ValueError as error:
        raise Invalid(
            "bad_allow_rule", str(error), hint="mend allow in agent.yaml, then run: tunnelmesh check_config --agent"
        ) from None
    if not rules:
        log.warning("allow is empty: this agent will refuse every stream")
    return rules


def _client_context(config: AgentConfig) -> ssl.SSLContext:
    if config.ca is None and not config.pins:
        raise Refused(
            "unverified_server",
            "neither pins nor ca is given: whoever answers would get this agent's token",
            hint="give pins or ca in agent.yaml, then run: tunnelmesh check_config --agent",
        )
    try:
        return tls.agent_client_context(ca=config.ca)
    except tls.TlsFileError as error:
        raise Refused(
            "bad_tls_file", str(error), hint="mend that file, then run: tunnelmesh check_config --agent"
        ) from error


class ServerLink:
    """The link to one server."""

    def __init__(self, agent: Agent, server: Address, engine: Engine, targets: Targets) -> None:
        self.server = server
        self.node = ""
        """The node that answered last."""
        self._agent = agent
        self._engine = engine
        self._targets = targets
        self._said = ""
        self.link = Link(self, clock=agent.clock, backoff=backoff(agent.config.limits))

    async def connect(self, over: Callable[[Ended], None]) -> Mux:
        """Dial the server and start a session. Raises DialFailed."""
        connection, accepted = await dial(self._engine, await self._whom())
        self.node = accepted.node
        session = Mux(
            self._engine,
            connection,
            client=True,
            on_stream=self._targets.on_stream,
            on_closed=lambda _, reason, code: over(Ended(reason, code)),
            on_drain=lambda _: over(Ended("it drains", GoAwayCode.NORMAL)),
            limits=session_limits(self._agent.config.limits),
        )
        session.start()
        return session

    async def _whom(self) -> Dial:
        config = self._agent.config
        try:
            # Read anew for every dial: the value may have been replaced meanwhile (C11).
            token = await asyncio.get_running_loop().run_in_executor(None, config.token.resolve)
        except DomainError as error:
            raise DialFailed("connect", f"this agent's token: {error.message}") from error
        return Dial(
            host=self.server.host,
            port=self.server.port,
            context=self._agent.context,
            request=UpgradeRequest(AGENT, str(self.server), token.reveal(), config.name),
            verify=partial(check_pin, frozenset(config.pins)),
            server_name=config.server_name,
            timeouts=dial_timeouts(config.limits),
        )

    def link_up(self, session: Mux) -> None:  # noqa: ARG002 - the link keeps it
        self._say("up", logging.INFO, f"connected to node {self.node}")

    def link_down(self, why: Down, pause: float) -> None:
        if isinstance(why, DialFailed):
            self._say(str(why), logging.WARNING, f"not connected: {why}; next try in {pause:.1f} s")
        elif why.code == GoAwayCode.SUPERSEDED:
            cause = "does another process use this agent's token, or do two servers lead to one node?"
            text = f"node {self.node} has a newer session of this agent: {cause} Next try in {pause:.1f} s"
            self._say("superseded", logging.WARNING, text)
        else:
            self._say("ended", logging.INFO, f"the session has ended: {why}; next try in {pause:.1f} s")

    def _say(self, state: str, level: int, text: str) -> None:
        """One line for each change."""
        if state != self._said:
            self._said = state
            log.log(level, "server %s: %s", self.server, text)


def check_pin(pins: frozenset[str], certificate: bytes) -> None:
    """Raises PeerMismatch unless there are no pins, or the server's public key is one of them (D16)."""
    if pins and (found := tls.public_key_pin(certificate)) not in pins:
        raise PeerMismatch(f"the server's public key has the pin {found}, which is not among pins in agent.yaml")


class Targets:
    """Takes the streams that a node opens: judges, dials the target, joins the two."""

    def __init__(self, engine: Engine, rules: tuple[AllowRule, ...]) -> None:
        self._engine = engine
        self._rules = rules
        self._dialer = TargetDialer(engine, timeout=TARGET_TIMEOUT, limit=PENDING_DIALS)
        self._refused: set[str] = set()

    def on_stream(self, channel: Channel, request: ConnectRequest) -> None:
        """One stream whose CONNECT has come."""
        verdict = may_reach(self._rules, request.host, request.port)
        if not verdict.allowed:
            self._log_refusal(request.authority, verdict.reason)
            channel.refuse(Problem(403, "forbidden", f"this agent does not allow {request.authority}"))
            return
        self._dialer.dial(request.host, request.port, partial(self._reached, channel))

    async def close(self) -> None:
        """Dial no more."""
        await self._dialer.close()

    def _reached(self, channel: Channel, result: socket.socket | Problem) -> None:
        if isinstance(result, Problem):
            channel.refuse(result)
            return
        channel.accept()
        Pump(self._engine, result, channel).start()

    def _log_refusal(self, authority: str, reason: str) -> None:
        name_it = authority not in self._refused and len(self._refused) < REMEMBERED
        if name_it:
            self._refused.add(authority)
        log.log(logging.WARNING if name_it else logging.DEBUG, "a stream is refused: %s", reason)
