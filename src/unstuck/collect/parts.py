"""What frames refer to instead of repeating it: values by kind and number.

A part travels once per connection. From `LARGE` bytes on, its digest goes first, and its body only
to a hub that has not had it from another agent.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Annotated, Any, cast, get_args, get_origin

import msgspec
from msgspec import Struct

from unstuck.model.bounds import MOST_RANKS

LARGE = 512
"""Bytes from which on a part goes by its digest first."""

Tables = list[dict[int, Any]]
"""What an agent has sent: per kind of part, the values by number; 0 is the empty one."""


class Part(Struct, frozen=True, array_like=True):
    """One value that frames refer to; either its body, or the digest of it."""

    kind: int
    number: int
    body: bytes = b""
    digest: bytes = b""


class Kind(Struct, frozen=True):
    """A type whose values are parts."""

    type: Any
    empty: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


kinds: list[Kind] = []
"""All kinds of parts; agents and hub of one version number them alike."""
_numbers: dict[Any, int] = {}


def kind_of(type_: Any) -> int:
    """Return the number of the kind that values of a type are, a new one where it has none."""
    if type_ not in _numbers:
        _numbers[type_] = len(kinds)
        plain = plain_type(type_)
        origin: Any = get_origin(plain) or plain
        empty = cast("Any", origin)() if origin in (str, tuple, dict, float) else None
        coder = (msgspec.msgpack.encode, msgspec.msgpack.Decoder(type_).decode)
        if are_numbers(type_):
            coder = (_encode_members, _decode_members)
        kinds.append(Kind(type_, empty, *coder))
    return _numbers[type_]


def plain_type(type_: Any) -> Any:
    """Return a type without the bounds of its values."""
    return get_args(type_)[0] if get_origin(type_) is Annotated else type_


def are_numbers(type_: Any) -> bool:
    """Tell whether values of a type are lists of numbers, which travel as ranges."""
    return get_origin(type_) is tuple and plain_type(get_args(type_)[0]) is int


def digest(body: bytes) -> bytes:
    """Return what a large part is known by."""
    return blake2b(body, digest_size=16).digest()


def to_ranges(members: Sequence[int]) -> list[int]:
    """Write numbers as first, last and distance of each regular stretch.

    Example:
        >>> to_ranges((0, 1, 2, 3, 10, 20, 30, 7))
        [0, 3, 1, 10, 30, 10, 7, 7, 1]
    """
    found: list[int] = []
    at, end = 0, len(members)
    while at < end:
        first = last = members[at]
        step = members[at + 1] - first if at + 1 < end else 1
        at += 1
        while step and at < end and members[at] - last == step:
            last = members[at]
            at += 1
        found += (first, last, step or 1)
    return found


def from_ranges(ranges: Sequence[int]) -> tuple[int, ...]:
    """Read what `to_ranges` wrote.

    Raises:
        ConnectionError: it was not written by it, or the list would be too long.
    """
    found: list[int] = []
    for first, last, step in zip(ranges[::3], ranges[1::3], ranges[2::3], strict=True):
        if not step or max(first, last) >= MOST_RANKS or min(first, last) < -1:
            raise ConnectionError("ranks that no job has")
        if (last - first) // step >= MOST_RANKS - len(found):
            raise ConnectionError("a list of members that no job has")
        found += range(first, last + (1 if step > 0 else -1), step)
    return tuple(found)


def _encode_members(members: tuple[int, ...]) -> bytes:
    return msgspec.msgpack.encode(to_ranges(members))


def _decode_members(body: bytes) -> tuple[int, ...]:
    try:
        return from_ranges(_ranges_decoder.decode(body))
    except ValueError as error:
        raise ConnectionError("a list of members that cannot be read") from error


_ranges_decoder = msgspec.msgpack.Decoder(list[int])
