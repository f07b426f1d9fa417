"""What people ask of a running job's watchers: pause, resume, be more or less patient.

A message is an object, as `unstuck ctl` sends it:

    {"do": "pause", "for": 3600}                  no stall is judged for this many seconds
    {"do": "resume"}                              judge again
    {"do": "set", "patience": 60}                 instead of what was learned; null: learned again
    {"do": "set", "sections": {"save": 600}}      instead of its own deadline; null: its own again
    {"do": "status"}

What was asked is kept in the run directory, so that a restarted hub still knows it.
"""

import contextlib
import math
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from unstuck.files import write_whole
from unstuck.model.controls import Controls

FILE = "controls.json"
"""In the run directory."""
LONGEST_PAUSE = 86400.0
MOST_PATIENCE = 7 * 86400.0
_LEAST_PATIENCE = 0.5
_MOST_SECTIONS = 256
_JUST_RESUMED = 10.0


class Asked(Struct, frozen=True):
    """What was asked for, in Unix times, as the file keeps it."""

    paused_until: float = 0.0
    resumed_at: float = 0.0
    patience: float = 0.0
    sections: dict[str, float] = {}


def begin_with(run: Path, patience: float) -> None:
    """Leave a patience for the hub of a run that has not started yet."""
    write_whole(run / FILE, msgspec.json.encode(Asked(patience=patience)) + b"\n")


class RefusedError(Exception):
    """The message is not valid; the text says why."""


class Steering:
    """Keeps what was asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked = _load(path)

    def at(self, now: float) -> Controls:
        """Return what holds for diagnosis at a moment (Unix time)."""
        asked = self._asked
        left = max(0.0, asked.paused_until - now)
        since = now - asked.resumed_at
        return Controls(
            paused_left=round(left, 3),
            resumed_for=round(since, 3) if not left and 0 <= since < _JUST_RESUMED else None,
            patience=asked.patience,
            sections=asked.sections,
        )

    def pause_has_ended(self, now: float) -> bool:
        """Tell, once, that a pause is over."""
        if not 0.0 < self._asked.paused_until <= now:
            return False
        self._keep(replace(self._asked, paused_until=0.0, resumed_at=now))
        return True

    def obey(self, message: Any, now: float) -> str:
        """Do what a message asks and return it in words; empty for a mere question.

        Raises:
            RefusedError: it is not valid.
        """
        if not isinstance(message, dict):
            raise RefusedError("a ctl message is an object with `do`")
        wanted = cast("dict[str, Any]", message)
        match wanted.get("do"):
            case "status":
                return ""
            case "pause":
                return self._pause(wanted, now)
            case "resume":
                return self._resume(now)
            case "set":
                return self._set(wanted)
            case other:
                text = f"cannot do {str(other)[:40]!r}: pause, resume, set or status"
                raise RefusedError(text)

    def _pause(self, wanted: dict[str, Any], now: float) -> str:
        seconds = _seconds(wanted.get("for", 3600.0), "for", 0.001, LONGEST_PAUSE)
        self._keep(replace(self._asked, paused_until=now + seconds))
        return f"paused for {_plain(seconds)}: stalls are not judged, deaths are"

    def _resume(self, now: float) -> str:
        paused = self._asked.paused_until > now
        if paused:
            self._keep(replace(self._asked, paused_until=0.0, resumed_at=now))
        return "resumed: stalls are judged again" if paused else "was not paused"

    def _set(self, wanted: dict[str, Any]) -> str:
        words: list[str] = []
        asked = self._asked
        if "patience" in wanted:
            seconds = _patience(wanted["patience"], "patience")
            asked = replace(asked, patience=seconds)
            words.append(f"patience is {_plain(seconds) if seconds else 'learned'} now")
        sections = wanted.get("sections", {})
        if not isinstance(sections, dict):
            raise RefusedError("sections is an object of names and seconds")
        if len(cast("dict[str, Any]", sections)) + len(asked.sections) > _MOST_SECTIONS:
            raise RefusedError(f"there may be {_MOST_SECTIONS} sections with a time of their own")
        for name, value in cast("dict[str, Any]", sections).items():
            seconds = _patience(value, name)
            kept = {k: v for k, v in asked.sections.items() if k != name}
            asked = replace(asked, sections={**kept, name: seconds} if seconds else kept)
            words.append(f"section {name} has {_plain(seconds) if seconds else 'its own time'} now")
        if not words:
            raise RefusedError("nothing to set: patience, sections")
        self._keep(asked)
        return "; ".join(words)

    def _keep(self, asked: Asked) -> None:
        """The run directory may be full or gone: then only a restarted hub would not know."""
        self._asked = asked
        with contextlib.suppress(OSError):
            write_whole(self._path, msgspec.json.encode(asked) + b"\n")


def _load(path: Path) -> Asked:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Asked)
    except (OSError, msgspec.MsgspecError):
        return Asked()


def _patience(value: Any, name: str) -> float:
    """Seconds, or null for what it was before."""
    return 0.0 if value is None else _seconds(value, name, _LEAST_PATIENCE, MOST_PATIENCE)


def _seconds(value: Any, name: str, least: float, most: float) -> float:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or not least <= value <= most:
        raise RefusedError(f"{name} must be {least:g} to {most:g} seconds, not {str(value)[:40]}")
    return float(value)


def _plain(seconds: float) -> str:
    if seconds >= 120:
        return f"{seconds / 60:.4g} min"
    return f"{seconds:.4g} s"
