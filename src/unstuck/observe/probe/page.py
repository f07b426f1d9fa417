"""The page a rank shares with its agent: a small file mapped into memory on both sides.

*Progress* (step, section) is written by the training thread, *liveness* (the beat) and a
JSON report by the probe's helper thread, each in its own place: a rank that is alive but
stuck looks different from one that is silent. Times are CLOCK_MONOTONIC, which all
processes of a host share.

    0      8s   magic
    8      Qd   beat: count, time
    24     Qd   step: number, time
    40     Q    section: changes so far << 17 | has a deadline << 16 | number of its name
    48     d    section: its deadline
    56     Q    how many of the places for deadlines have been used
    64     H…   section: length and name where that is not in the list below
    256    II   report: sequence (odd while being written), length
    264    …    report: JSON
    32760  Q    the agent's last question for the stacks: any number but the one before
    32768  …    64 open deadlines: end (0: none), begin, what to do
    34816  …    240 names of sections: length, name

A section is entered and left thousands of times a second: one store of eight bytes each. So its
name is a number, and names are written once.
"""

import json
import mmap
import os
import struct
import time
from typing import Any, NamedTuple

SIZE = 65536
MAGIC = b"UNSTUCK2"
_BEAT = struct.Struct("<Qd")
_STEP = struct.Struct("<Qd")
_NAME = struct.Struct("<H")
_REPORT = struct.Struct("<II")
_DEADLINE = struct.Struct("<ddQQ")
_NAME_AT, _NAME_MAX = 64, 190
_REPORT_AT = 256
_JSON_AT = _REPORT_AT + _REPORT.size
_DEADLINES_AT, _ASKED_AT = 32768, 32760
_NAMES_AT, _NAME_BYTES = 34816, 128
DEADLINES = 64
NO_NAME, OTHER_NAME, FIRST_NAME = 0, 1, 2
LAST_NAME = FIRST_NAME + 239
_SECTION, _SECTION_END, _USED, _FIRST_DEADLINE = 5, 6, 7, _DEADLINES_AT // 8
"""Places of the words of eight bytes."""
_HAS_DEADLINE = 1 << 16
_CHANGE = 1 << 17
_FIRED = 1 << 24
ACTIONS = ("report", "dump", "call", "raise", "abort")
"""What is done when a section's deadline passes, as numbered on the page."""
AGENT_ACTS_AFTER = 0.5
"""Seconds after a deadline at which the agent takes it that the rank cannot act itself."""


class Deadline(NamedTuple):
    """The limit of a section that is open."""

    end: float
    begin: float
    name: str
    action: int
    """What the script wants then: an index of `ACTIONS`."""
    fired: bool
    """The rank itself has done it."""


class Page(NamedTuple):
    """One consistent reading of a page."""

    beat: int
    beat_time: float
    step: int
    step_time: float
    section_changes: int
    section_deadline: float
    section: str
    report: dict[str, Any]
    deadlines: tuple[Deadline, ...] = ()


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
        self.words = memoryview(self._map).cast("Q")
        self._floats = memoryview(self._map).cast("d")
        self._sequence = 0
        self._beats = 0
        self._changes = 0
        self._used = 0
        self._free = list(range(DEADLINES - 1, -1, -1))

    def beat(self, now: float) -> None:
        """Say that Python code can still run in this process."""
        self._beats += 1
        _BEAT.pack_into(self._map, 8, self._beats, now)

    def step(self, number: int) -> None:
        """Say that a training step is done."""
        _STEP.pack_into(self._map, 24, number, time.monotonic())

    def last_step(self) -> tuple[int, float]:
        """Return the number and time of the last step; zeros before the first."""
        return _STEP.unpack_from(self._map, 24)  # type: ignore[return-value]

    def mark(self, name: int) -> None:
        """Say by the number of its name which section the training thread is in."""
        self._changes = changes = self._changes + _CHANGE
        self.words[_SECTION] = changes | name

    def enter(self, name: int, deadline: float = 0.0) -> None:
        """Say the same of a section that may have a deadline."""
        if deadline:
            self._floats[_SECTION_END] = deadline
            name |= _HAS_DEADLINE
        self.mark(name)

    def section(self, name: str, deadline: float) -> None:
        """Say the same with a name that has no number; an empty one: in no section."""
        raw = name.encode(errors="replace")[:_NAME_MAX]
        self.words[_SECTION] = self._changes  # no name while it is written
        _NAME.pack_into(self._map, _NAME_AT, len(raw))
        self._map[_NAME_AT + 2 : _NAME_AT + 2 + len(raw)] = raw
        self.enter(OTHER_NAME if raw else NO_NAME, deadline)

    def name(self, number: int, name: str) -> None:
        """Write down the name of a number, before it is used."""
        raw = name.encode(errors="replace")[: _NAME_BYTES - 2]
        at = _NAMES_AT + (number - FIRST_NAME) * _NAME_BYTES
        self._map[at + 2 : at + 2 + len(raw)] = raw
        _NAME.pack_into(self._map, at, len(raw))

    def arm(self, deadline: float, begin: float, what: int, shown: int = 0) -> int:
        """Let the agent see a deadline; return its place, -1 if all are taken.

        `what` is the number of the action << 16 | the number of the section's name; `shown` the
        latter again where it is to be the section of the training thread.
        """
        if shown:
            self._changes = changes = self._changes + _CHANGE
            self._floats[_SECTION_END] = deadline
            self.words[_SECTION] = changes | _HAS_DEADLINE | shown
        try:
            place = self._free.pop()
        except IndexError:
            return -1
        at = _FIRST_DEADLINE + 4 * place
        self._floats[at + 1] = begin
        self.words[at + 2] = what
        self._floats[at] = deadline
        if self._used <= place:
            self.words[_USED] = self._used = place + 1
        return place

    def disarm(self, place: int, *, last: bool = False) -> None:
        """Take a deadline back; `last`: the training thread is in no section now."""
        if last:
            self._changes = changes = self._changes + _CHANGE
            self.words[_SECTION] = changes
        self._floats[_FIRST_DEADLINE + 4 * place] = 0.0
        self._free.append(place)

    def fired(self, place: int) -> None:
        """Say that the rank itself does what is to be done."""
        self.words[_FIRST_DEADLINE + 4 * place + 2] |= _FIRED

    def asked(self) -> int:
        """Return the number of the agent's last question; 0 before the first."""
        return self.words[_ASKED_AT // 8]

    def report(self, report: dict[str, Any]) -> None:
        """Replace the report; a reader never sees half of one."""
        # Lone surrogates (a file name in an error message) could not be sent on by the agent.
        text = json.dumps(report, separators=(",", ":"), ensure_ascii=False)
        raw = text.encode(errors="replace")
        if _JSON_AT + len(raw) > _ASKED_AT:
            raise ValueError(f"the report has {len(raw)} bytes, more than the page holds")
        self._sequence += 1
        _REPORT.pack_into(self._map, _REPORT_AT, self._sequence, len(raw))
        self._map[_JSON_AT : _JSON_AT + len(raw)] = raw
        self._sequence += 1
        _REPORT.pack_into(self._map, _REPORT_AT, self._sequence, len(raw))


class PageReader:
    """The agent's side: reads memory, and writes nothing but its question."""

    def __init__(self, path: str) -> None:
        self._path = path
        fd = os.open(path, os.O_RDONLY)
        try:
            self._map = mmap.mmap(fd, SIZE, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        self._last: tuple[int, dict[str, Any]] = (0, {})
        self._names: dict[int, str] = {}

    def read(self) -> Page:
        """Return the page as it is now; an unchanged report is not parsed again."""
        beat, beat_time = _BEAT.unpack_from(self._map, 8)
        step, step_time = _STEP.unpack_from(self._map, 24)
        state, name = self._section()
        deadline = 0.0
        if state & _HAS_DEADLINE:
            (deadline,) = struct.unpack_from("<d", self._map, 8 * _SECTION_END)
        return Page(
            beat,
            beat_time,
            step,
            step_time,
            state // _CHANGE,
            deadline,
            name,
            self._report(),
            self._deadlines(),
        )

    def beat_time(self) -> float:
        """Return when the helper thread last ran."""
        return _BEAT.unpack_from(self._map, 8)[1]

    def ask(self) -> None:
        """Ask the helper thread for the stacks of all threads."""
        fd = os.open(self._path, os.O_WRONLY)
        try:
            os.pwrite(fd, struct.pack("<Q", time.monotonic_ns()), _ASKED_AT)
        finally:
            os.close(fd)

    def _section(self) -> tuple[int, str]:
        """Read the section; a name that is being replaced meanwhile is read again."""
        state, name = 0, ""
        for _ in range(5):
            (state,) = struct.unpack_from("<Q", self._map, 8 * _SECTION)
            name = self._name(state % _HAS_DEADLINE)
            if struct.unpack_from("<Q", self._map, 8 * _SECTION)[0] == state:
                break
        return state, name

    def _name(self, number: int) -> str:
        if number == NO_NAME:
            return ""
        if FIRST_NAME <= number <= LAST_NAME:
            if (known := self._names.get(number)) is not None:
                return known
            at, most = _NAMES_AT + (number - FIRST_NAME) * _NAME_BYTES, _NAME_BYTES - 2
        else:
            at, most = _NAME_AT, _NAME_MAX
        (length,) = _NAME.unpack_from(self._map, at)
        name = self._map[at + 2 : at + 2 + min(length, most)].decode(errors="replace")
        if at != _NAME_AT:
            self._names[number] = name
        return name

    def _deadlines(self) -> tuple[Deadline, ...]:
        (used,) = struct.unpack_from("<Q", self._map, 8 * _USED)
        if not used:
            return ()
        raw = self._map[_DEADLINES_AT : _DEADLINES_AT + _DEADLINE.size * min(used, DEADLINES)]
        return tuple(
            Deadline(end, begin, self._name(what & 0xFFFF), what >> 16 & 0xFF, what >= _FIRED)
            for end, begin, what, _ in _DEADLINE.iter_unpack(raw)
            if end
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
