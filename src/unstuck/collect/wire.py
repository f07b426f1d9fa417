"""The protocol between agents and hub: length-prefixed msgpack over TCP.

The token itself never travels. The hub sends a nonce, the agent answers with its own nonce and
an HMAC-SHA256 by the token over all that it says of itself, the hub with one of its own: each
side knows that the other has the token before anything else is sent. From then on every message
is sealed (`session.py`). Nothing that arrives is executed; it is decoded into the structs below
or refused, and before the proof nothing longer than a greeting is read.
"""

import asyncio
import hmac
import secrets
import struct
from hashlib import sha256

import msgspec
from msgspec import Raw

from unstuck.collect.parts import Part
from unstuck.model.bounds import Moment
from unstuck.model.order import Order
from unstuck.model.requests import EvidenceRequest

PROTOCOL = 3
GREETING_BYTES = 4096
"""No message of the handshake is longer."""
LENGTH = struct.Struct(">I")
OTHER_VERSION = "another version of unstuck: install the same one on every node"


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


class Refused(msgspec.Struct, frozen=True, tag="refused", omit_defaults=True):
    """Hub: not accepted, with the reason; the connection is closed."""

    reason: str
    passes: bool = False
    """It may be accepted soon, without anybody doing anything."""


class Report(msgspec.Struct, frozen=True, array_like=True):
    """Agent: the state of its node, as `compact.py` writes it. Never part of `Message`."""

    number: int
    sent_at: Moment
    eager: bool
    """Something seems wrong there, or has just changed."""
    node: Raw
    ranks: Raw


class Parts(msgspec.Struct, frozen=True, tag="parts"):
    """Agent: what its next frames refer to."""

    parts: tuple[Part, ...]
    begins: bool = False
    """What was sent before no longer counts."""


class Lack(msgspec.Struct, frozen=True, tag="lack"):
    """Hub: send the bodies of these parts (kind and number)."""

    wanted: tuple[tuple[int, int], ...]


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
    | Parts
    | Lack
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
_report_decoder = msgspec.msgpack.Decoder(Report)


def encode(message: Message) -> bytes:
    """Return a message of the handshake as it goes over the wire."""
    data = body(message)
    return LENGTH.pack(len(data)) + data


def body(message: Message | Report) -> bytes:
    """Return a message without its length."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Return the message that `body` wrote.

    Raises:
        ConnectionError: it is none.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConnectionError(f"not an unstuck peer: {error}") from error


def decode_report(data: bytes) -> Report:
    """Return the report that `body` wrote.

    Raises:
        ConnectionError: it is none.
    """
    try:
        return _report_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConnectionError(f"not a report: {error}") from error


async def receive(reader: asyncio.StreamReader, within: float | None = None) -> Message:
    """Read one message of the handshake, within this many seconds.

    Raises:
        ConnectionError: the other side closed, or does not speak this protocol.
        TimeoutError: no complete message arrived in time.
    """
    async with asyncio.timeout(within):
        return decode(await read_bounded(reader, GREETING_BYTES))


async def read_bounded(reader: asyncio.StreamReader, most: int) -> bytes:
    """Read what one length announces, if that is not too much.

    Raises:
        ConnectionError: the other side closed, or announces more.
    """
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > most:
            raise ConnectionError("not an unstuck peer: impossible message length")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise ConnectionResetError("closed by the other side") from error


def nonce() -> bytes:
    """Return fresh random bytes for one handshake."""
    return secrets.token_bytes(16)


def proof(token: str, role: str, challenge: Challenge, hello: Hello) -> bytes:
    """Return what only a holder of the token can compute, about all that the two have said.

    With another `role`, it is the key of a direction.
    """
    said = (role, challenge.nonce, hello.nonce, hello.node, hello.host, hello.port, hello.protocol)
    return hmac.digest(token.encode(), msgspec.msgpack.encode(said), sha256)


def same(one: bytes, other: bytes) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(one, other)
