"""The page a rank shares with its agent: a small file mapped into memory on both sides.

*Progress* (step, section) is written by the training thread, *liveness* (the beat) and a
JSON report by the probe's helper thread, each in its own place: a rank that is alive but
stuck looks different from one that is silent. Times are CLOCK_MONOTONIC, which all
processes of a host share.

    0    8s   magic
    8    Qd   beat: count, time
    24   Qd   step: number, time
    40   Qdd  section: changes so far, time of the last change, deadline (0: none)
    64   H…   section: length and name of the innermost one
    256  II   report: sequence (odd while being written), length
    264  …    report: JSON
"""

import json
import mmap
import os
import struct
import time
from typing import Any, NamedTuple

SIZE = 32768
MAGIC = b"UNSTUCK1"
_BEAT = struct.Struct("<Qd")
_STEP = struct.Struct("<Qd")
_SECTION = struct.Struct("<Qdd")
_NAME = struct.Struct("<H")
_REPORT = struct.Struct("<II")
_NAME_AT, _NAME_MAX = 64, 190
_REPORT_AT = 256
_JSON_AT = _REPORT_AT + _REPORT.size


class Page(NamedTuple):
    """One consistent reading of a page."""

    beat: int
    beat_time: float
    step: int
    step_time: float
    section_changes: int
    section_time: float
    section_deadline: float
    section: str
    report: dict[str, Any]


class PageWriter:
    """The rank's side. Opening allocates every block, so that a full disk fails here, not later."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(fd, 0, SIZE)
            self._map = mmap.mmap(fd, SIZE)
        finally:
            os.close(fd)
        self._map[0:8] = MAGIC
        self._sequence = 0
        self._beats = 0
        self._section_changes = 0

    def beat(self, now: float) -> None:
        """Say that Python code can still run in this process."""
        self._beats += 1
        _BEAT.pack_into(self._map, 8, self._beats, now)

    def step(self, number: int) -> None:
        """Say that a training step is done."""
        _STEP.pack_into(self._map, 24, number, time.monotonic())

    def section(self, name: str, deadline: float) -> None:
        """Say which section the training thread is in; an empty name: in none."""
        self._section_changes += 1
        raw = name.encode(errors="replace")[:_NAME_MAX]
        _NAME.pack_into(self._map, _NAME_AT, len(raw))
        self._map[_NAME_AT + 2 : _NAME_AT + 2 + len(raw)] = raw
        _SECTION.pack_into(self._map, 40, self._section_changes, time.monotonic(), deadline)

    def report(self, report: dict[str, Any]) -> None:
        """Replace the report; a reader never sees half of one."""
        # Lone surrogates (a file name in an error message) could not be sent on by the agent.
        text = json.dumps(report, separators=(",", ":"), ensure_ascii=False)
        raw = text.encode(errors="replace")
        if _JSON_AT + len(raw) > SIZE:
            raise ValueError(f"the report has {len(raw)} bytes, more than the page holds")
        self._sequence += 1
        _REPORT.pack_into(self._map, _REPORT_AT, self._sequence, len(raw))
        self._map[_JSON_AT : _JSON_AT + len(raw)] = raw
        self._sequence += 1
        _REPORT.pack_into(self._map, _REPORT_AT, self._sequence, len(raw))


class PageReader:
    """The agent's side: reads memory and nothing else."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY)
        try:
            self._map = mmap.mmap(fd, SIZE, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        self._last: tuple[int, dict[str, Any]] = (0, {})

    def read(self) -> Page:
        """Return the page as it is now; an unchanged report is not parsed again."""
        beat, beat_time = _BEAT.unpack_from(self._map, 8)
        step, step_time = _STEP.unpack_from(self._map, 24)
        changes, changed, deadline = _SECTION.unpack_from(self._map, 40)
        (length,) = _NAME.unpack_from(self._map, _NAME_AT)
        name = self._map[_NAME_AT + 2 : _NAME_AT + 2 + min(length, _NAME_MAX)]
        section = name.decode(errors="replace")
        return Page(
            beat, beat_time, step, step_time, changes, changed, deadline, section, self._report()
        )

    def _report(self) -> dict[str, Any]:
        for _ in range(20):
            sequence, length = _REPORT.unpack_from(self._map, _REPORT_AT)
            if sequence == self._last[0]:
                return self._last[1]
            raw = self._map[_JSON_AT : _JSON_AT + length]
            if sequence % 2 == 0 and _REPORT.unpack_from(self._map, _REPORT_AT)[0] == sequence:
                self._last = (sequence, json.loads(raw) if raw else {})
                return self._last[1]
        return self._last[1]

    def close(self) -> None:
        """Unmap the page."""
        self._map.close()
