"""A notice as one or two calm lines: who keeps the others waiting, and what is known of it."""

from unstuck import durations
from unstuck.console import clean
from unstuck.diagnose.text import group_text, ranks_text
from unstuck.model.life import Life, Sign
from unstuck.model.notice import Notice
from unstuck.model.verdict import Culprit

_MOST_CODE = 60
_RATES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def begins(notice: Notice) -> list[str]:
    """Say that others wait, for whom, and what shows that it may still arrive.

    Example:
        begins(notice)  # ["rank 2 is asleep at train.py:26, 3 s; ranks 0,1,3 wait in all_reduce…"]
    """
    first = notice.ranks[0]
    who = ranks_text(one.rank for one in notice.ranks) + (": each" if notice.ranks[1:] else "")
    what = clean(first.doing) + (f" at {_place(first)}" if first.file else "")
    if first.code:
        what += f" ({clean(first.code)[:_MOST_CODE]})"
    state = _state_of(notice)
    if notice.times_out_in is not None:
        state = f"torch gives up in {durations.text(notice.times_out_in)}; {state}"
    return [f"{who} {what}; {_waiting(notice)}", state]


def ends(notice: Notice) -> str:
    """Say that a hold-up is over."""
    first = notice.ranks[0]
    who = ranks_text(one.rank for one in notice.ranks)
    where = f" at {_place(first)}" if first.file else ""
    return f"{who} moved on after {durations.text(notice.seconds)}{where}"


def _place(culprit: Culprit) -> str:
    file = clean(culprit.file).replace("\\", "/").rsplit("/", 1)[-1]
    return f"{file}:{culprit.line}"


def _waiting(notice: Notice) -> str:
    stuck, count = notice.stuck, len(notice.waiting)
    verb = "waits" if count == 1 else "wait"
    who = f"{ranks_text(notice.waiting)} {verb}" if count else "the others wait"
    lasted = durations.text(notice.seconds)
    if stuck is None:
        return f"{who}, {lasted} so far"
    op = stuck.op.rsplit(":", 1)[-1]
    group = clean(group_text(stuck.group, stuck.description))
    return f"{who} in {op} number {stuck.number} of {group}, {lasted} so far"


def _state_of(notice: Notice) -> str:
    life = notice.life
    if life is not None and life.signs:
        return f"it works: {signs_text(life)}"
    if notice.judged_in is None:
        return "whether it works is not known yet"
    left = durations.text(max(1.0, notice.judged_in))
    return f"no sign of life so far; a verdict follows in {left} if none appears"


def signs_text(life: Life) -> str:
    """Word the signs of life of the last look.

    Example:
        >>> signs_text(Life(3.0, 0.0, (Sign.CPU, Sign.NETWORK), cpu=1.0, network=12e6))
        '1.0 cores, network 12 MB/s'
    """
    words = {
        Sign.CPU: f"{life.cpu:.1f} cores",
        Sign.IO: f"reads and writes {_rate(life.io)}",
        Sign.NETWORK: f"network {_rate(life.network)}",
        Sign.CODE: "new lines of code",
        Sign.CHILDREN: "child processes start or end",
    }
    return ", ".join(words[sign] for sign in life.signs)


def _rate(count: float) -> str:
    size, unit = next((pair for pair in _RATES if count >= pair[0]), _RATES[-1])
    return f"{count / size:.0f} {unit}/s"
