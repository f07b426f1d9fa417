"""Structs of the model as arrays: numbers in place, references to parts, defaults left out.

Derived from the types, so a new field needs nothing here. As in the standard library's dataclasses,
the function that reads a row is written as source and compiled once: a hub reads 100,000 rows a
second, and a loop over the fields would take three times as long.
"""

import types
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Protocol, Union, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct, structs

from unstuck.collect.parts import Tables, kind_of, plain_type
from unstuck.model.bounds import LONGEST, bounded

_MICRO = 1_000_000
_RARE = (
    "unobserved section_left p2p left_for threads waiting failure crashed_in handling "
    " exit_asked recorder_age stack_age hook hook_seconds gil_held pending recent cores "
    " exit_code gone_for oom_kills throttled restarts route"
)
"""Mostly at their defaults: written last, so that they are mostly left out."""
_SETTINGS = frozenset({"timeout", "store"})
"""Durations that somebody has set: they stay the same."""


class Referring(Protocol):
    """Whoever knows which parts were sent."""

    def refer(self, kind: int, value: Any) -> int:
        """Return the number of a value."""
        ...


class _NothingSent:
    def refer(self, kind: int, value: Any) -> int:  # noqa: ARG002 - the form of it
        """Defaults that are parts are the empty ones."""
        return 0


Pack = Callable[[Any, Referring], Any]


class _Field(Struct, frozen=True):
    """How the values of one type travel."""

    row_type: Any
    pack: Pack
    read: str = "{}"
    """An expression that reads what travelled, by `tables` and the names below."""
    names: dict[str, Any] = {}


def _part(type_: Any) -> _Field:
    """Let the values of this type travel as parts."""
    number = kind_of(type_)
    return _Field(int, lambda value, packer: packer.refer(number, value), f"tables[{number}][{{}}]")


def _counts_time(type_: Any) -> bool:
    """Tell whether values of a type hold a number that always changes."""
    if isinstance(type_, type) and issubclass(type_, Struct):
        return any(_counts_time(one.type) for one in structs.fields(type_))
    return plain_type(type_) is float or any(map(_counts_time, get_args(type_)))


def _field(type_: Any) -> _Field:
    if isinstance(type_, types.UnionType) or get_origin(type_) is Union:
        return _optional(next(one for one in get_args(type_) if one is not types.NoneType))
    if plain_type(type_) is float:
        return _Field(_micros(type_), _pack_seconds, f"{{}} / {_MICRO}")
    if plain_type(type_) in (int, bool) or (isinstance(type_, type) and issubclass(type_, Enum)):
        return _Field(type_, lambda value, _packer: value)
    if not _counts_time(type_):
        return _part(type_)
    if get_origin(type_) is tuple:
        return _each(_field(get_args(type_)[0]))
    row = Row(cast("type[Struct]", type_))
    name = f"read_{row.type.__name__}"
    return _Field(row.type, row.pack, f"{name}({{}}, tables)", {name: row.unpack})


def _micros(type_: Any) -> Any:
    """Return the type of whole microseconds within the bounds of seconds."""
    meta = next((one for one in get_args(type_) if isinstance(one, Meta)), Meta())
    least, most = (
        -LONGEST if meta.ge is None else meta.ge,
        LONGEST if meta.le is None else meta.le,
    )
    return Annotated[int, Meta(ge=int(least * _MICRO), le=int(most * _MICRO))]


def _pack_seconds(value: float, _packer: Referring) -> int:
    return round(bounded(value) * _MICRO)


def _optional(type_: Any) -> _Field:
    inner = _field(type_)
    read = inner.read.format("{0}")
    return _Field(
        inner.row_type | None,
        lambda value, packer: None if value is None else inner.pack(value, packer),
        f"(None if {{0}} is None else {read})",
        inner.names,
    )


def _each(inner: _Field) -> _Field:
    read = inner.read.format("one")
    return _Field(
        tuple[inner.row_type, ...],
        lambda values, packer: [inner.pack(value, packer) for value in values],
        f"(tuple([{read} for one in {{0}}]) if {{0}} else ())",
        inner.names,
    )


class Row:
    """A struct of the model by position: an array of what changes and references to the rest."""

    def __init__(self, model: type[Struct]) -> None:
        rare = frozenset(_RARE.split())
        known = sorted(structs.fields(model), key=lambda one: (not one.required, one.name in rare))
        fields = {
            one.name: _part(one.type) if one.name in _SETTINGS else _field(one.type)
            for one in known
        }
        self._packs = [(name, field.pack) for name, field in fields.items()]
        self._defaults = [
            NODEFAULT if one.required else fields[one.name].pack(_default(one), _NothingSent())
            for one in known
        ]
        columns: list[Any] = [
            (one.name, fields[one.name].row_type, *_in_row(packed, fields[one.name].row_type))
            for one, packed in zip(known, self._defaults, strict=True)
        ]
        self.type = msgspec.defstruct(
            f"{model.__name__}Row", columns, array_like=True, frozen=True, gc=False
        )
        names = {"model": model}
        for field in fields.values():
            names |= field.names
        reads = {name: field.read.format(f"row.{name}") for name, field in fields.items()}
        in_order = ", ".join(reads[name] for name in model.__struct_fields__)
        named = ", ".join(f"{name!r}: {read}" for name, read in reads.items())
        self.values: Callable[[Any, Tables], dict[str, Any]] = _compile(f"{{{named}}}", names)
        """Read a row into a dictionary."""
        self.unpack: Callable[[Any, Tables], Any] = _compile(f"model({in_order})", names)
        """Read a row into a struct of the model."""

    def pack(self, value: Any, packer: Referring) -> list[Any]:
        """Write a struct as a row; `packer` knows what was sent before."""
        row = [pack(getattr(value, name), packer) for name, pack in self._packs]
        defaults = self._defaults
        while row and row[-1] == defaults[len(row) - 1]:
            row.pop()
        return row


def _compile(expression: str, names: dict[str, Any]) -> Any:
    # Made of names of fields of our own types, never of anything that arrives.
    return eval(f"lambda row, tables: {expression}", names)  # noqa: S307


def _default(field: structs.FieldInfo) -> Any:
    if field.default is not NODEFAULT:
        return field.default
    return None if field.default_factory is NODEFAULT else field.default_factory()


def _in_row(packed: Any, row_type: Any) -> tuple[Any, ...]:
    """A default as the decoder fills it in: a list stands for a row or a tuple of rows."""
    if packed is NODEFAULT:
        return ()
    if not isinstance(packed, list):
        return (packed,)
    default = msgspec.convert(packed, row_type)
    return (msgspec.field(default_factory=lambda: default),)
