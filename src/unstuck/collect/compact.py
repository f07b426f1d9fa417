"""Frames as they travel: numbers in place, and everything that seldom changes once, by number.

A rank's name, lines of code, settings and the members of its groups stay the same for hours. Each
such value is a *part*: it is sent before the first frame that uses it, and later frames only
refer to it. A large part goes by its digest, and a hub that does not have it from another agent
asks for it; so the members of a group of 100,000 ranks reach a hub once and not once per node.
Members are written as ranges, durations as whole microseconds, fields by position; defaults at
the end of a row are left out.

All of this is derived from the types in `model/`: a new field of a rank needs nothing here.
"""

import types
from collections.abc import Callable, Iterable
from enum import Enum
from operator import itemgetter
from typing import Annotated, Any, Union, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Raw, Struct, structs

from unstuck.collect.parts import (
    LARGE,
    Part,
    Tables,
    are_numbers,
    digest,
    kind_of,
    kinds,
    plain_type,
)
from unstuck.model.bounds import LONGEST, bounded
from unstuck.model.frame import Frame, NodeReport
from unstuck.model.rank import RankState

MOST_MEMBERS_OF_NODE = 1 << 22
_MOST_PARTS = 4096
_MOST_PART_BYTES = 8 << 20
"""What one agent may refer to; it begins anew beyond."""
_MOST_KEPT_BYTES = 64 << 20
_MICRO = 1_000_000
_RARE = (
    "unobserved section_left p2p left_for threads waiting failure crashed_in handling "
    " exit_asked recorder_age stack_age hook hook_seconds gil_held pending recent cores "
    " exit_code gone_for oom_kills throttled restarts route"
)
"""Mostly at their defaults: written last, so that they are mostly left out."""
_SETTINGS = frozenset({"timeout", "store"})
"""Durations that somebody has set: they stay the same."""


class UnknownPartError(ConnectionError):
    """A frame refers to something that was never sent."""


class _Field(Struct, frozen=True):
    """How the values of one type travel."""

    row_type: Any
    pack: Callable[[Any, "Packer"], Any]
    unpack: Callable[[Any, Tables], Any] | None = None
    """None where the value travels as it is."""


# --- from types to rows


def _part(type_: Any) -> _Field:
    """Let the values of this type travel as parts."""
    number = kind_of(type_)

    def unpack(reference: int, tables: Tables) -> Any:
        return tables[number][reference]

    return _Field(int, lambda value, packer: packer.refer(number, value), unpack)


def _counts_time(type_: Any) -> bool:
    """Tell whether values of a type hold a number that always changes."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return any(_counts_time(one.type) for one in structs.fields(type_))
    return plain_type(type_) is float or any(map(_counts_time, get_args(type_)))


def _field(type_: Any) -> _Field:
    if isinstance(type_, types.UnionType) or get_origin(type_) is Union:
        return _optional(next(one for one in get_args(type_) if one is not types.NoneType))
    if plain_type(type_) is float:
        return _Field(_micros(type_), _pack_seconds, _unpack_seconds)
    if plain_type(type_) in (int, bool) or (isinstance(type_, type) and issubclass(type_, Enum)):
        return _Field(type_, lambda value, _packer: value)
    if not _counts_time(type_):
        return _part(type_)
    if get_origin(type_) is tuple:
        return _each(_field(get_args(type_)[0]))
    row = _Row(cast("type[Struct]", type_))
    return _Field(row.type, row.pack, row.unpack)


def _micros(type_: Any) -> Any:
    """Return the type of whole microseconds within the bounds of seconds."""
    meta = next((one for one in get_args(type_) if isinstance(one, Meta)), Meta())
    least, most = (
        -LONGEST if meta.ge is None else meta.ge,
        LONGEST if meta.le is None else meta.le,
    )
    return Annotated[int, Meta(ge=int(least * _MICRO), le=int(most * _MICRO))]


def _pack_seconds(value: float, _packer: "Packer") -> int:
    return round(bounded(value) * _MICRO)


def _unpack_seconds(micros: int, _tables: Tables) -> float:
    return micros / _MICRO


def _optional(type_: Any) -> _Field:
    inner = _field(type_)
    unpack = inner.unpack
    return _Field(
        inner.row_type | None,
        lambda value, packer: None if value is None else inner.pack(value, packer),
        unpack and (lambda value, tables: None if value is None else unpack(value, tables)),
    )


def _each(inner: _Field) -> _Field:
    unpack = inner.unpack

    def unpack_all(rows: tuple[Any, ...], tables: Tables) -> tuple[Any, ...]:
        return tuple([unpack(row, tables) for row in rows]) if rows and unpack else rows

    return _Field(
        tuple[inner.row_type, ...],
        lambda values, packer: [inner.pack(value, packer) for value in values],
        unpack_all,
    )


class _Row:
    """A struct of the model by position: an array of what changes and references to the rest."""

    def __init__(self, model: type[Struct]) -> None:
        self._model = model
        rare = frozenset(_RARE.split())
        known = sorted(structs.fields(model), key=lambda one: (not one.required, one.name in rare))
        fields = {
            one.name: _part(one.type) if one.name in _SETTINGS else _field(one.type)
            for one in known
        }
        self.names = tuple(fields)
        self._packs = [(name, field.pack) for name, field in fields.items()]
        self._unpacks = [
            (index, field.unpack) for index, field in enumerate(fields.values()) if field.unpack
        ]
        defaults = [(one, _default(one)) for one in known]
        blank = Packer()
        self._defaults = [
            NODEFAULT if one.required else fields[one.name].pack(default, blank)
            for one, default in defaults
        ]
        columns: list[Any] = [
            (name, field.row_type)
            if one.required
            else (name, field.row_type, _in_row(packed, field.row_type))
            for (name, field), one, packed in zip(
                fields.items(), known, self._defaults, strict=True
            )
        ]
        self.type = msgspec.defstruct(
            f"{model.__name__}Row", columns, array_like=True, frozen=True, gc=False
        )
        places = [self.names.index(name) for name in model.__struct_fields__]
        self._in_order = itemgetter(*places) if len(places) > 1 else tuple

    def pack(self, value: Any, packer: "Packer") -> list[Any]:
        """Write a struct as a row; `packer` knows what was sent before."""
        row = [pack(getattr(value, name), packer) for name, pack in self._packs]
        defaults = self._defaults
        while row and row[-1] == defaults[len(row) - 1]:
            row.pop()
        return row

    def values(self, row: Struct, tables: Tables) -> list[Any]:
        """Return the fields of a row, in its own order."""
        values = list(structs.astuple(row))
        for index, unpack in self._unpacks:
            values[index] = unpack(values[index], tables)
        return values

    def unpack(self, row: Struct, tables: Tables) -> Any:
        """Read a row."""
        return self._model(*self._in_order(self.values(row, tables)))


def _default(field: structs.FieldInfo) -> Any:
    if field.default is not NODEFAULT:
        return field.default
    return None if field.default_factory is NODEFAULT else field.default_factory()


def _in_row(packed: Any, row_type: Any) -> Any:
    """A default as the decoder fills it in: a list stands for a row or a tuple of rows."""
    if not isinstance(packed, list):
        return packed
    default = msgspec.convert(packed, row_type)
    return msgspec.field(default_factory=lambda: default)


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
    values = _guarded(lambda: _node.values(_node_decoder.decode(row), tables))
    return dict(zip(_node.names, values, strict=True))


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


_node = _Row(NodeReport)
_rank = _Row(RankState)
_node_decoder = msgspec.msgpack.Decoder(_node.type)
_ranks_decoder = msgspec.msgpack.Decoder(list[_rank.type])
