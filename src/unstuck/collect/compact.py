"""Frames as they travel: numbers in place, and everything that seldom changes once, by number.

A rank's name, lines of code, settings and the members of its groups stay the same for hours. Each
such value is a *part*: it is sent before the first frame that uses it, and later frames only
refer to it. A large part goes by its digest, and a hub that does not have it from another agent
asks for it; so the members of a group of 100,000 ranks reach a hub once and not once per node.
Members are written as ranges, durations as whole microseconds, fields by position; defaults at
the end of a row are left out.

All of this is derived from the types in `model/`: a new field of a rank needs nothing here.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from unstuck.collect.parts import (
    LARGE,
    Part,
    Tables,
    are_numbers,
    digest,
    kinds,
)
from unstuck.collect.rows import Row
from unstuck.model.frame import Frame, NodeReport
from unstuck.model.rank import RankState

MOST_MEMBERS_OF_NODE = 1 << 22
_MOST_PARTS = 4096
_MOST_PART_BYTES = 8 << 20
"""What one agent may refer to; it begins anew beyond."""
_MOST_KEPT_BYTES = 64 << 20


class UnknownPartError(ConnectionError):
    """A frame refers to something that was never sent."""


# --- the agent's side


class Packer:
    """Writes frames for one connection, and keeps what its other side was sent."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._sent: list[dict[Any, int]] = [{} for _ in kinds]
        self._by_identity: dict[int, tuple[Any, int]] = {}
        self._large: dict[tuple[int, int], bytes] = {}
        self._new: list[Part] = []
        self._bytes = 0

    def pack(self, frame: Frame) -> "Packed":
        """Write a frame, with the parts to be sent before it."""
        parts = sum(map(len, self._sent))
        begins = not parts
        if parts > _MOST_PARTS or self._bytes > _MOST_PART_BYTES:
            self._start()
            begins = True
        node = _node.pack(frame, self)
        ranks = [_rank.pack(rank, self) for rank in frame.ranks]
        new, self._new = self._new, []
        return Packed(tuple(new), begins, _raw(node), _raw(ranks))

    def refer(self, kind: int, value: Any) -> int:
        """Return the number of a value; it becomes a part when it is new."""
        if not value and kinds[kind].empty is not None:
            return 0
        if (seen := self._by_identity.get(id(value))) and seen[0] is value:
            return seen[1]
        sent = self._sent[kind]
        # A dictionary has no hash; what it holds is short.
        body = kinds[kind].encode(value) if isinstance(value, dict) else None
        key = cast("Any", value if body is None else body)
        if (number := sent.get(key)) is None:
            number = sent[key] = len(sent) + 1
            self._add(kind, number, body or kinds[kind].encode(value))
        if isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) > LARGE:
            # Its hash alone would take long; it is kept, so that its identity stays its own.
            self._by_identity[id(cast("Any", value))] = (value, number)
        return number

    def _add(self, kind: int, number: int, body: bytes) -> None:
        self._bytes += len(body)
        if len(body) < LARGE:
            self._new.append(Part(kind, number, body))
        else:
            self._large[kind, number] = body
            self._new.append(Part(kind, number, digest=digest(body)))

    def bodies(self, wanted: Iterable[tuple[int, int]]) -> tuple[Part, ...]:
        """Return the large parts that the other side asks for."""
        known = ((key, self._large.get(key)) for key in wanted)
        return tuple(Part(*key, body) for key, body in known if body is not None)


class Packed(Struct, frozen=True):
    """A frame ready to be sent."""

    parts: tuple[Part, ...]
    begins: bool
    """What was sent before no longer counts."""
    node: Raw
    ranks: Raw


def _raw(rows: list[Any]) -> Raw:
    return Raw(msgspec.msgpack.encode(rows))


# --- the hub's side


class Library:
    """Parts of all agents: what is the same on many nodes is decoded and kept once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Any] = {}
        self._bytes = 0

    def read(self, part: Part) -> Any:
        """Return the value of a part.

        Raises:
            ConnectionError: it is none.
        """
        body = part.body
        key = (part.kind, body if len(body) < LARGE else digest(body))
        if (value := self._known.get(key)) is None:
            try:
                value = kinds[part.kind].decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError) as error:
                raise ConnectionError(f"a part that cannot be read: {error}") from error
            self._keep(key, value, len(body))
        return value

    def look_up(self, part: Part) -> Any:
        """Return the value of a part that came as a digest; None if it is not known."""
        return self._known.get((part.kind, part.digest))

    def _keep(self, key: tuple[int, bytes], value: Any, size: int) -> None:
        if self._bytes + size > _MOST_KEPT_BYTES:
            self._known.clear()  # it will be asked for again; nodes keep what they refer to
            self._bytes = 0
        self._known[key] = value
        self._bytes += size + 64


class Unpacker:
    """Reads the frames of one connection."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.tables: Tables = _empty_tables()
        self._lacking: dict[tuple[int, int], bytes] = {}
        self._members = 0

    @property
    def lacks(self) -> bool:
        """Tell whether a part was announced that has not arrived."""
        return bool(self._lacking)

    def learn(self, parts: Iterable[Part], *, begins: bool) -> tuple[tuple[int, int], ...]:
        """Take in parts; return those that must be asked for.

        Raises:
            ConnectionError: what arrives is not what an agent sends.
        """
        if begins:
            # Frames that were not read yet refer to the tables that held when they arrived.
            self.tables, self._lacking, self._members = _empty_tables(), {}, 0
        ask: list[tuple[int, int]] = []
        for part in parts:
            key = (part.kind, part.number)
            if not (0 <= part.kind < len(kinds) and 0 < part.number <= 2 * _MOST_PARTS):
                raise ConnectionError("a part of an unknown kind")
            if part.body:
                expected = self._lacking.pop(key, None)
                if expected is not None and expected != digest(part.body):
                    raise ConnectionError("a part that does not match its digest")
                self._put(key, self._library.read(part))
            elif (known := self._library.look_up(part)) is not None:
                self._put(key, known)
            else:
                self._lacking[key] = part.digest
                ask.append(key)
        return tuple(ask)

    def _put(self, key: tuple[int, int], value: Any) -> None:
        if are_numbers(kinds[key[0]].type):
            self._members += len(value)
            if self._members > MOST_MEMBERS_OF_NODE:
                raise ConnectionError("more members of groups than a node can be in")
        self.tables[key[0]][key[1]] = value


def _empty_tables() -> Tables:
    return [{} if one.empty is None else {0: one.empty} for one in kinds]


def read_node(row: Raw, tables: Tables) -> dict[str, Any]:
    """Return what an agent says of its node, by field.

    Raises:
        ConnectionError: it is not what an agent sends.
    """
    return _guarded(lambda: _node.values(_node_decoder.decode(row), tables))


def read_ranks(rows: Raw, tables: Tables) -> tuple[RankState, ...]:
    """Return the ranks of a frame.

    Raises:
        ConnectionError: they are not what an agent sends.
    """
    unpack = _rank.unpack
    return _guarded(lambda: tuple([unpack(row, tables) for row in _ranks_decoder.decode(rows)]))


def _guarded(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except KeyError as error:
        raise UnknownPartError("a frame refers to what was never sent") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConnectionError(f"a frame that cannot be read: {error}") from error


_node = Row(NodeReport)
_rank = Row(RankState)
_node_decoder = msgspec.msgpack.Decoder(_node.type)
_ranks_decoder = msgspec.msgpack.Decoder(list[_rank.type])
