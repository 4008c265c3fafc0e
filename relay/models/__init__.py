"""The tables of what is published: services, the routes that lead to them, and who may use them."""

from relay.models.policy import Policy
from relay.models.route import Route
from relay.models.service import Service

__all__ = ["Policy", "Route", "Service"]
