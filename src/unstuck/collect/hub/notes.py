"""Notes that the ranks of a job leave for each other at the hub, which outlives all of them."""

from typing import Any

MOST_NOTES = 65_536
LONGEST = 16 << 10
MOST_BYTES = 64 << 20
"""Of all notes together."""


class Notes:
    """Keys and values; each request is carried out as a whole before the next one."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}
        self._size = 0

    def handle(self, request: Any) -> dict[str, Any]:
        """Carry out a request and return the value that holds afterwards.

        Example:
            >>> notes = Notes()
            >>> notes.handle({"set": "a", "value": "1"})
            {'value': '1'}
            >>> notes.handle({"get": ["a", "b"]})
            {'values': ['1', None]}
        """
        match request:
            case {"get": list()}:
                keys: list[Any] = request["get"]
                return {"values": [self._notes.get(str(key)) for key in keys]}
            case {"set": str(key), "value": str(value), "if": str(before)}:
                if self._notes.get(key, "") == before:
                    return self._write(key, value)
                return {"value": self._notes[key]}
            case {"set": str(key), "value": str(value)}:
                return self._write(key, value)
            case {"delete": str(key)}:
                self._size -= len(key) + len(self._notes.pop(key)) if key in self._notes else 0
                return {"value": None}
            case _:
                return {"error": "a note is read with get, written with set and value, or deleted"}

    def _write(self, key: str, value: str) -> dict[str, Any]:
        old = self._notes.get(key)
        size = len(value) - len(old) if old is not None else len(key) + len(value)
        full = self._size + size > MOST_BYTES or (old is None and len(self._notes) >= MOST_NOTES)
        if full or len(key) + len(value) > LONGEST:
            return {"error": "too many notes, or the note is too long"}
        self._notes[key] = value
        self._size += size
        return {"value": value}
