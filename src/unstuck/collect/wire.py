"""The protocol between agents and hub: length-prefixed msgpack over TCP.

The token itself never travels. The hub sends a nonce, the agent answers with its own nonce
and HMAC-SHA256(token, "agent" + both nonces + node), the hub with HMAC(token, "hub" + …):
each side knows that the other has the token before anything else is sent. Nothing that
arrives is executed; it is decoded into the structs below or refused.
"""

import asyncio
import hmac
import secrets
import struct
from hashlib import sha256

import msgspec

from unstuck.model.frame import Frame
from unstuck.model.order import Order
from unstuck.model.requests import EvidenceRequest

PROTOCOL = 2
_LENGTH = struct.Struct(">I")
_MOST_BYTES = 256 << 20


class Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    """Hub, first: prove that you know the token."""

    nonce: bytes
    protocol: int = PROTOCOL


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Agent: who it is, and its proof."""

    node: str
    host: str
    nonce: bytes
    proof: bytes
    protocol: int = PROTOCOL
    port: int = 0
    """Where it hears the other agents (UDP); 0 where it does not."""


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Hub: accepted, with the hub's own proof."""

    proof: bytes


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Hub: not accepted, with the reason; the connection is closed."""

    reason: str


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Agent: the state of its node."""

    frame: Frame


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Hub: collect this evidence; the answer is in the next frame."""

    requests: tuple[EvidenceRequest, ...]


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Hub: one line for the people who watch this node."""

    text: str


class Heard(msgspec.Struct, frozen=True, tag="heard"):
    """Hub: this frame arrived. An agent that does not get this knows that it is cut off.

    Number 0 confirms nothing: it is sent to see whether the kernel of a silent node answers.
    """

    number: int


class Peer(msgspec.Struct, frozen=True):
    """An agent that others may probe directly."""

    node: str
    host: str
    address: str
    port: int


class Peers(msgspec.Struct, frozen=True, tag="peers"):
    """Hub: whom to probe from now on."""

    peers: tuple[Peer, ...]


class Question(msgspec.Struct, frozen=True, tag="question"):
    """Agent: a question or request of one of its ranks, or of a person at its node (JSON)."""

    number: int
    text: str


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """Hub: the answer to that question (JSON)."""

    number: int
    text: str


class News(msgspec.Struct, frozen=True, tag="news"):
    """Hub: what happened, for the ranks that subscribed to it (JSON)."""

    topic: str
    text: str
    holds: bool = False
    """It still holds: also for those who subscribe later."""


class Do(msgspec.Struct, frozen=True, tag="do"):
    """Hub: do this to the ranks of your node, if you were started to obey."""

    order: Order


class Lease(msgspec.Struct, frozen=True, tag="lease"):
    """Hub: if you are cut off from here for this many seconds, end your ranks."""

    seconds: float


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    """Either side: an orderly end of the connection."""


Message = (
    Challenge
    | Hello
    | Welcome
    | Refused
    | Report
    | Ask
    | Say
    | Heard
    | Peers
    | Question
    | Answer
    | News
    | Do
    | Lease
    | Bye
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the message as it goes over the wire."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


async def receive(reader: asyncio.StreamReader, within: float | None = None) -> Message:
    """Read one message, within this many seconds.

    Raises:
        ConnectionError: the other side closed, or does not speak this protocol.
        TimeoutError: no complete message arrived in time.
    """
    async with asyncio.timeout(within):
        try:
            (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
            if length > _MOST_BYTES:
                raise ConnectionError("not an unstuck peer: impossible message length")
            return _decoder.decode(await reader.readexactly(length))
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("closed by the other side") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConnectionError(f"not an unstuck peer: {error}") from error


def nonce() -> bytes:
    """Return fresh random bytes for one handshake."""
    return secrets.token_bytes(16)


def proof(token: str, role: str, hub_nonce: bytes, agent_nonce: bytes, node: str) -> bytes:
    """Return what only a holder of the token can compute."""
    text = b"\0".join([role.encode(), hub_nonce, agent_nonce, node.encode()])
    return hmac.new(token.encode(), text, sha256).digest()


def same(one: bytes, other: bytes) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(one, other)
