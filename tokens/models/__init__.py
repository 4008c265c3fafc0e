"""The tables of the credentials: service tokens, devices and their pairing, peers, refused attempts."""

from tokens.models.device import Device
from tokens.models.pairing import PairingRequest
from tokens.models.peer import Peer
from tokens.models.refused_attempt import RefusedAttempt
from tokens.models.service_token import ServiceToken, ServiceTokenUse

__all__ = ["Device", "PairingRequest", "Peer", "RefusedAttempt", "ServiceToken", "ServiceTokenUse"]
