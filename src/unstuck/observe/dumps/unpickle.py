"""Read a pickle that holds only dicts, lists, tuples and scalars; run nothing.

This is no restricted `pickle.Unpickler`: it is a small machine of its own that knows the
operations which build plain values, and no others. What names a class or calls something
(GLOBAL, REDUCE, BUILD, ...) is not in its table, so a hostile file can at most be refused.
Tuples come out as lists: nothing but text and numbers can then be a key, and the hash of a
deeply nested tuple cannot exhaust the C stack, as it does in Python's own reader.
"""

import struct
from collections.abc import Callable
from typing import Any, cast

from unstuck.errors import DumpDamagedError, DumpUnsafeError

MOST_VALUES = 1_000_000
"""Values that a dump may hold beside eight for each of its bytes. By the memo a few bytes name the
same value again and again, and whoever reads it meets it each time anew."""
MOST_NESTED = 64
"""Containers may be open inside each other this deep; torch needs seven."""

_UINT8, _UINT32, _UINT64 = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<Q")
_KEYS = frozenset({str, int, float, bool})
_GET, _PUT, _STOP = b"hq."
_RUNS_CODE = {
    b"c"[0]: "GLOBAL",
    b"\x93"[0]: "STACK_GLOBAL",
    b"R"[0]: "REDUCE",
    b"b"[0]: "BUILD",
    b"i"[0]: "INST",
    b"o"[0]: "OBJ",
    b"\x81"[0]: "NEWOBJ",
    b"\x92"[0]: "NEWOBJ_EX",
    b"\x82"[0]: "EXT1",
    b"\x83"[0]: "EXT2",
    b"\x84"[0]: "EXT4",
    b"P"[0]: "PERSID",
    b"Q"[0]: "BINPERSID",
}


def loads(content: bytes) -> object:
    """Build the value that a pickle describes.

    Example:
        >>> import pickle
        >>> loads(pickle.dumps({"version": "2.10", "ranks": (0, 1)}))
        {'version': '2.10', 'ranks': [0, 1]}

    Raises:
        DumpUnsafeError: it names a class or a function, or asks to call one.
        DumpDamagedError: it is cut short, or not a pickle of plain values.
    """
    machine = _Machine(content)
    try:
        value = machine.run()
        _check_size(value, MOST_VALUES + 8 * len(content))
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, struct.error) as error:
        raise DumpDamagedError(f"is cut short or damaged at byte {machine.at}") from error
    return value


def _check_size(value: object, most: int) -> None:
    """Refuse what is small here and huge or endlessly deep for whoever walks through it."""
    left = [(value, 0)]
    count = 0
    while left:
        one, depth = left.pop()
        children: list[Any] = []
        if isinstance(one, dict):
            children = list(cast("dict[Any, Any]", one).values())
        elif isinstance(one, list):
            children = cast("list[Any]", one)
        count += 1 + len(children)
        if count > most or depth > MOST_NESTED:
            raise ValueError("too many values, or nested too deep")
        left += [(child, depth + 1) for child in children if isinstance(child, (dict, list))]


class _Machine:
    """The value stack, the marks and the memo of one pickle."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> object:
        """Carry out one operation after the other up to STOP and return what is left."""
        content, memo, end = self._content, self._memo, len(self._content)
        while True:
            code = content[self.at]
            self.at += 1
            # The two commonest are written out: they are two thirds of all operations.
            if code == _GET:
                self._stack.append(memo[content[self.at]])
                self.at += 1
            elif code == _PUT and self.at < end:
                memo[content[self.at]] = self._stack[-1]
                self.at += 1
            elif code == _STOP:
                return self._stack.pop()
            elif step := _TABLE.get(code):
                step(self)
            else:
                self._refuse(code)

    def _refuse(self, code: int) -> None:
        if name := _RUNS_CODE.get(code):
            target = _words(self._content[self.at : self.at + 60]) if code in b"ci" else ""
            raise DumpUnsafeError(
                f"is refused: its byte {self.at} ({name}{target}) would load or call code, which "
                "no flight-recorder dump does",
                hint="do not open it with pickle.load or torchfrtrace; find out who wrote it",
            )
        raise ValueError(code)

    def _take(self, count: int) -> bytes:
        taken = self._content[self.at : self.at + count]
        if len(taken) != count:
            raise IndexError(count)
        self.at += count
        return taken

    def number(self, form: struct.Struct) -> Any:
        """Read a number from the next bytes."""
        (value,) = form.unpack_from(self._content, self.at)
        self.at += form.size
        return value

    def push(self, value: object) -> None:
        """Lay a value on the stack."""
        self._stack.append(value)

    def _items(self) -> list[Any]:
        """Take what lies above the last mark."""
        items, self._stack = self._stack, self._marks.pop()
        return items

    def last(self, count: int) -> list[Any]:
        """Take the topmost values."""
        if len(self._stack) < count:
            raise IndexError(count)
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    # One method per operation; `_TABLE` below says which byte calls which.

    def mark(self) -> None:
        if len(self._marks) >= MOST_NESTED:
            raise ValueError("nested too deep")
        self._marks.append(self._stack)
        self._stack = []

    def new_dict(self) -> None:
        self.push({})

    def new_list(self) -> None:
        self.push([])

    def append(self) -> None:
        value = self._stack.pop()
        cast("list[Any]", self._stack[-1]).append(value)

    def appends(self) -> None:
        items = self._items()
        cast("list[Any]", self._stack[-1]).extend(items)

    def set_item(self) -> None:
        self._set(self.last(2))

    def set_items(self) -> None:
        self._set(self._items())

    def _set(self, items: list[Any]) -> None:
        target, keys = self._stack[-1], items[::2]
        if type(target) is not dict or not _KEYS.issuperset(map(type, keys)):
            raise TypeError(keys)
        cast("dict[Any, Any]", target).update(zip(keys, items[1::2], strict=True))

    def text(self) -> None:
        self.push(self._take(self.number(_UINT32)).decode())

    def short_text(self) -> None:
        self.push(self._take(self.number(_UINT8)).decode())

    def long_text(self) -> None:
        self.push(self._take(self.number(_UINT64)).decode())

    def long_put(self) -> None:
        self._memo[self.number(_UINT32)] = self._stack[-1]

    def memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def long_get(self) -> None:
        self.push(self._memo[self.number(_UINT32)])

    def long(self) -> None:
        self.push(int.from_bytes(self._take(self.number(_UINT8)), "little", signed=True))

    def protocol(self) -> None:
        self._take(1)

    def frame(self) -> None:
        self._take(8)

    def tuple(self) -> None:
        self.push(self._items())


def _number_of(form: str) -> Callable[[_Machine], None]:
    reader = struct.Struct(form)
    return lambda machine: machine.push(machine.number(reader))


def _constant(value: object) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(value)


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.last(count))


def _words(content: bytes) -> str:
    """Quote the module and name that a GLOBAL asks for, without control characters."""
    text = " ".join(content.decode("ascii", "replace").split("\n")[:2])
    return " " + "".join(letter if letter.isprintable() else "?" for letter in text)


_TABLE: dict[int, Callable[[_Machine], None]] = {
    b"\x80"[0]: _Machine.protocol,
    b"\x95"[0]: _Machine.frame,
    b"("[0]: _Machine.mark,
    b"}"[0]: _Machine.new_dict,
    b"]"[0]: _Machine.new_list,
    b"a"[0]: _Machine.append,
    b"e"[0]: _Machine.appends,
    b"s"[0]: _Machine.set_item,
    b"u"[0]: _Machine.set_items,
    b"X"[0]: _Machine.text,
    b"\x8c"[0]: _Machine.short_text,
    b"\x8d"[0]: _Machine.long_text,
    b"r"[0]: _Machine.long_put,
    b"\x94"[0]: _Machine.memoize,
    b"j"[0]: _Machine.long_get,
    b"K"[0]: _number_of("<B"),
    b"M"[0]: _number_of("<H"),
    b"J"[0]: _number_of("<i"),
    b"G"[0]: _number_of(">d"),
    b"\x8a"[0]: _Machine.long,
    b"N"[0]: _constant(None),
    b"\x88"[0]: _constant(value=True),
    b"\x89"[0]: _constant(value=False),
    b")"[0]: lambda machine: machine.new_list(),
    b"t"[0]: _Machine.tuple,
    b"\x85"[0]: _tuple_of(1),
    b"\x86"[0]: _tuple_of(2),
    b"\x87"[0]: _tuple_of(3),
}
