"""Logs that were copied from a terminal: long lines come in pieces of the terminal's width."""

import re
from collections.abc import Iterable

from unstuck.observe.logs.lines import prefix

LARGEST = 1 << 20
"""What people paste is small; what programs write is not wrapped."""
NARROWEST = 60
WIDEST = 400

_BEGINS = re.compile(r"\s*(?:[\[({<>*=#|-]|Traceback|File |\S+(?:Error|Exception)\b|$)")

_OPEN = re.compile(
    r"WorkNCCL\((?:[^()]|\([^()]*\))*(?:\([^()]*)?$|\] Watchdog caught[A-Za-z :]{0,40}$"
)
_UNFINISHED = re.compile(r"(?:,|:|\b[a-z]{2,20})\s*$")
"""How a line ends that is not over: a comma, a colon, or a word in the middle of a sentence."""
MOST_PIECES = 3


def is_cut(line: str) -> bool:
    """Tell whether a watchdog's line ends before its operation does.

    Example:
        is_cut("[Rank 2] Watchdog caught … WorkNCCL(SeqNum=4, OpTy")  # True
    """
    return ("WorkNCCL(" in line or "Watchdog caught" in line) and bool(_OPEN.search(line))


def whole(line: str, following: Iterable[str]) -> str:
    """Return a watchdog's line with the next ones that belong to it."""
    for _, piece in zip(range(MOST_PIECES), following, strict=False):
        if not is_cut(line) or not _goes_on(piece):
            break
        line = f"{line.rstrip()} {piece.lstrip()}" if piece[:1] in {" ", "\t"} else line + piece
    return line


def folded(line: str, following: Iterable[str]) -> str:
    """Return a message that somebody broke by hand as one line: its continuation is indented.

    Example:
        folded("connecting: SO_ERROR: Connection refused,", ["    remote=[127.0.0.1]:14215"])
    """
    margin = _margin(line)
    for _, piece in zip(range(MOST_PIECES), following, strict=False):
        open_end = bool(_UNFINISHED.search(line))
        if not open_end or _margin(piece) < margin + 2 or not _goes_on(piece):
            break
        line = f"{line.rstrip()} {piece.lstrip()}"
    return line


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def unwrap(data: bytes, least: int = 2) -> bytes:
    """Put wrapped lines together again; lines keep their numbers, and other logs stay as they are.

    A line is wrapped when it is as long as the longest, at least so many are, and the next one
    does not begin like a line of its own.
    """
    if len(data) > LARGEST:
        return data
    raw = data.split(b"\n")
    if max(map(len, raw)) > 4 * WIDEST:
        return data
    lines = [line.decode("utf-8", "replace").rstrip("\r") for line in raw]
    width = max(map(len, lines))
    full = [len(line) == width and not line.endswith("  ") for line in lines]
    if not NARROWEST <= width <= WIDEST or sum(full) < least:
        return data
    return "\n".join(_join(lines, full)).encode()


def _join(lines: list[str], full: list[bool]) -> list[str]:
    joined: list[str] = []
    pieces = 0
    for number, line in enumerate(lines):
        if number and full[number - 1] and _goes_on(line):
            joined[-1 - pieces] += line
            pieces += 1
            joined.append("")
        else:
            pieces = 0
            joined.append(line)
    return joined


def _goes_on(line: str) -> bool:
    if _BEGINS.match(line):
        return False
    head = prefix.parse(line)
    return head.rank is None and head.time is None and not head.host
