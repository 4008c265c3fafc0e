"""The tables of the fleet: nodes, their heartbeats, the agent connections that they hold."""

from nodes.models.authorisation import AuthorisationRevision
from nodes.models.connection import AgentConnection
from nodes.models.heartbeat import Heartbeat
from nodes.models.server_node import ServerNode

__all__ = ["AgentConnection", "AuthorisationRevision", "Heartbeat", "ServerNode"]
