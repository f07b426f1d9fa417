"""A connection between agent and hub after both have proved that they have the token.

Every message carries HMAC-SHA256 with a key of its own direction, made from the token and what
both sides said in the handshake, over the number of the message and its content. So what a relay
changes, leaves out, repeats or adds ends the connection. The content itself is not encrypted.
"""

import asyncio
import contextlib
import hmac
import socket
import struct
from collections.abc import Callable
from typing import Any

from unstuck.collect import wire
from unstuck.collect.compact import Packer
from unstuck.model.frame import Frame

MOST_BYTES = 32 << 20
"""Of one message."""
MOST_UNREAD = 16 << 20
"""What may wait for an other side that does not read; it is given up beyond."""
MESSAGE, REPORT, LASTING = b"m", b"r", b"R"
"""What a message is: a report that a newer one replaces, one that must be read, or another."""
_TAG_BYTES = 16
_HEAD_BYTES = _TAG_BYTES + 1


class AlteredError(ConnectionError):
    """Something on the way changed what was sent."""


class Session:
    """Sends and receives sealed messages."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        keys: tuple[bytes, bytes],
    ) -> None:
        self.writer = writer
        self.packer = Packer()
        self.heard_at = 0.0
        """When its owner last received something; kept by the owner."""
        self._reader = reader
        self._sends, self._receives = keys
        self._sent = 0
        self._received = 0

    # --- sending

    def send(self, message: wire.Message) -> None:
        """Send a message."""
        self.send_body(wire.body(message))

    def send_body(self, body: bytes, kind: bytes = MESSAGE) -> None:
        """Send a message that was encoded before."""
        if self.writer.transport.get_write_buffer_size() > MOST_UNREAD:
            self.abort()
            return
        content = kind + body
        tag = _tag(self._sends, self._sent, content)
        self._sent += 1
        self.writer.write(wire.LENGTH.pack(len(content) + _TAG_BYTES) + tag + content)

    def send_frame(self, frame: Frame, *, eager: bool = True) -> None:
        """Send the state of a node, and before it what it refers to for the first time."""
        packed = self.packer.pack(frame)
        if packed.parts or packed.begins:
            self.send(wire.Parts(packed.parts, packed.begins))
        report = wire.Report(frame.number, frame.sent_at, eager, packed.node, packed.ranks)
        lasting = frame.ended or frame.cut_off_for
        self.send_body(wire.body(report), LASTING if lasting else REPORT)

    async def drain(self, within: float) -> None:
        """Wait until the other side has taken most of what was sent.

        Raises:
            TimeoutError: it does not.
        """
        await asyncio.wait_for(self.writer.drain(), within)

    # --- receiving

    async def receive(self) -> wire.Message:
        """Read the next message; a side that gets reports reads with `receive_body`.

        Raises:
            ConnectionError: the other side closed, or what arrives is not what it sent.
        """
        kind, body = await self.receive_body()
        if kind != MESSAGE:
            raise ConnectionError("a report where none is expected")
        return wire.decode(body)

    async def receive_body(self) -> tuple[bytes, bytes]:
        """Read the next message: what it is, and its content.

        Raises:
            ConnectionError: the other side closed, or what arrives is not what it sent.
        """
        data = await wire.read_bounded(self._reader, MOST_BYTES)
        content = data[_TAG_BYTES:]
        if not wire.same(data[:_TAG_BYTES], _tag(self._receives, self._received, content)):
            raise AlteredError("a message was changed, left out or added on its way")
        self._received += 1
        return content[:1], content[1:]

    # --- ending

    def close(self) -> None:
        """Close in order: what was sent is still delivered."""
        self.writer.close()

    def abort(self) -> None:
        """Give up a dead connection with all that waits to be sent.

        Otherwise the kernel would deliver old frames when the network is back, and then the end.
        """
        with contextlib.suppress(OSError):
            at_once = struct.pack("ii", 1, 0)
            connection: Any = self.writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.writer.transport.abort()


def _tag(key: bytes, number: int, content: bytes) -> bytes:
    return hmac.digest(key, number.to_bytes(8) + content, "sha256")[:_TAG_BYTES]


async def introduce(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    token: str,
    node: str,
    host: str,
    port: int = 0,
) -> Session:
    """Do the agent's side of the handshake.

    Raises:
        PermissionError: the hub refused, or could not prove that it has the token.
        ConnectionError: whatever listens there is not a hub, or accepts this node only later.
        TimeoutError: it does not answer.
    """
    challenge = await wire.receive(reader, within=5)
    if not isinstance(challenge, wire.Challenge):
        raise ConnectionError("not an unstuck hub")
    if challenge.protocol != wire.PROTOCOL:
        raise PermissionError(f"the hub runs {wire.OTHER_VERSION}")
    hello = wire.Hello(node, host, wire.nonce(), b"", port=port)
    answer = wire.proof(token, "agent", challenge, hello)
    writer.write(wire.encode(wire.Hello(node, host, hello.nonce, answer, port=port)))
    reply = await wire.receive(reader, within=5)
    if isinstance(reply, wire.Refused):
        kind = ConnectionError if reply.passes else PermissionError
        raise kind(f"the hub refused this node: {reply.reason}")
    expected = wire.proof(token, "hub", challenge, hello)
    if not isinstance(reply, wire.Welcome) or not wire.same(reply.proof, expected):
        raise PermissionError("the hub could not prove that it has this job's token")
    return Session(reader, writer, _keys(token, challenge, hello))


async def admit(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    token: str,
    is_taken: Callable[[str], bool],
) -> tuple[wire.Hello, Session]:
    """Do the hub's side of the handshake; `is_taken` tells whether a node's name is in use.

    Raises:
        ConnectionError: whoever connects is not an agent of this job, or not now.
        TimeoutError: it does not answer.
    """
    challenge = wire.Challenge(wire.nonce())
    writer.write(wire.encode(challenge))
    hello = await wire.receive(reader, within=5)
    if not isinstance(hello, wire.Hello):
        raise ConnectionError("not an unstuck agent")
    refused = None
    if hello.protocol != wire.PROTOCOL:
        refused = wire.Refused(wire.OTHER_VERSION)
    elif not wire.same(hello.proof, wire.proof(token, "agent", challenge, hello)):
        refused = wire.Refused("wrong token: set the same UNSTUCK_TOKEN on every node")
    elif is_taken(hello.node):
        refused = wire.Refused(f"another agent is connected as {hello.node}", passes=True)
    if refused is not None:
        writer.write(wire.encode(refused))
        await asyncio.wait_for(writer.drain(), 5)
        raise ConnectionError(refused.reason)
    writer.write(wire.encode(wire.Welcome(wire.proof(token, "hub", challenge, hello))))
    sends, receives = _keys(token, challenge, hello)
    return hello, Session(reader, writer, (receives, sends))


def _keys(token: str, challenge: wire.Challenge, hello: wire.Hello) -> tuple[bytes, bytes]:
    """Return the keys of what the agent sends and of what the hub sends."""
    return (
        wire.proof(token, "agent sends", challenge, hello),
        wire.proof(token, "hub sends", challenge, hello),
    )
