"""Messages survive the wire; whatever is no message is refused."""

import asyncio
import struct

import pytest
from msgspec import structs

from unstuck.collect import wire
from unstuck.collect.parts import Part
from unstuck.model.requests import EvidenceKind, EvidenceRequest

GREETING = wire.Hello("h/1", "h", b"agent", b"", port=7)


def received(data: bytes, *, within: float | None = 5.0, eof: bool = True) -> wire.Message:
    async def receive() -> wire.Message:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        if eof:
            reader.feed_eof()
        return await wire.receive(reader, within)

    return asyncio.run(receive())


@pytest.mark.parametrize(
    "message",
    [
        wire.Challenge(b"\0\xff"),
        wire.Hello("h/1", "h", b"n", b"p"),
        wire.Welcome(b"p"),
        wire.Refused("wrong token"),
        wire.Parts((Part(0, 1, "训练".encode()), Part(2, 1, digest=b"d")), begins=True),
        wire.Lack(((0, 1),)),
        wire.Ask((EvidenceRequest(EvidenceKind.STACK, (1, 2)),)),
        wire.Say("rank 2 is asleep"),
        wire.Bye(),
    ],
)
def test_message_comes_out_as_it_went_in(message: wire.Message):
    assert received(wire.encode(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", 4) + b"\xc1\xc1\xc1\xc1",
        struct.pack(">I", 0),
        struct.pack(">I", 18) + b"\x82\xa4type\xa3say\xa4text\xa2\xff\xfe",
        struct.pack(">I", 11) + b"\x81\xa4type\xa4evil",
        struct.pack(">I", 50_000) + b"\x91" * 50_000,
    ],
    ids=["http", "too-long", "garbage", "empty", "bad-text", "unknown", "nested"],
)
def test_what_is_no_message_is_refused(data: bytes):
    with pytest.raises(ConnectionError) as caught:
        received(data, eof=False)
    assert not isinstance(caught.value, ConnectionResetError)


@pytest.mark.parametrize("cut", [0, 2, 10])
def test_end_in_the_middle_is_the_other_sides_end(cut: int):
    with pytest.raises(ConnectionResetError, match="closed by the other side"):
        received(wire.encode(wire.Say("x" * 100))[:cut])


@pytest.mark.parametrize("data", [b"", wire.encode(wire.Say("x" * 100))[:50]])
def test_slow_peer_runs_out_of_time(data: bytes):
    with pytest.raises(TimeoutError):
        received(data, within=0.05, eof=False)


def test_proof_depends_on_everything():
    asked = ("token", "agent", wire.Challenge(b"hub"), GREETING)
    proof = wire.proof(*asked)
    assert wire.same(proof, wire.proof(*asked))
    changed = {"node": "h/2", "host": "i", "nonce": b"other", "port": 8, "protocol": 2}
    greetings = [structs.replace(GREETING, **{name: value}) for name, value in changed.items()]
    others = [
        ("other", *asked[1:]),
        ("token", "hub", *asked[2:]),
        ("token", "agent", wire.Challenge(b"hub2"), GREETING),
        *((*asked[:3], greeting) for greeting in greetings),
    ]
    for other in others:
        assert not wire.same(proof, wire.proof(*other)), other


def test_nonces_are_fresh():
    assert len({wire.nonce() for _ in range(100)}) == 100
