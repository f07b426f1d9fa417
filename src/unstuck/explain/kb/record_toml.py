"""A record as the TOML file it is kept in."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from unstuck.explain.kb.schema import Record

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(record: Record) -> str:
    """Return a record as TOML, which `read.read` reads as the same record.

    Example:
        path.write_text(to_toml(record))
    """
    fields: dict[str, Any] = json.loads(msgspec.json.encode(record))
    first = [(key, value) for key, value in fields.items() if not _is_table(value)]
    lines = [f"{key} = {_value(value)}" for key, value in first]
    for key, value in fields.items():
        if value and _is_table(value):
            lines += _tables(key, value)
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(one, dict) for one in cast("list[Any]", value))
    return isinstance(value, dict)


def _tables(key: str, value: Any) -> Iterator[str]:
    head = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
    for one in cast("list[dict[str, Any]]", value) if isinstance(value, list) else [value]:
        yield ""
        yield head
        yield from (f"{_key(name)} = {_value(item)}" for name, item in one.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return "{ " + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in pairs) + " }"
        case list():
            return "[" + ", ".join(map(_value, cast("list[Any]", value))) + "]"
        case str() if "\\" in value and _is_literal(value):
            return f"'{value}'"
        case str():
            # TOML has JSON's escapes, and forbids one character more.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return str(value)


def _is_literal(text: str) -> bool:
    """Tell whether a text can stand in single quotes, where patterns need no escapes."""
    return "'" not in text and all(char.isprintable() for char in text)
