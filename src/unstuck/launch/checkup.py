"""A look at the timeouts of a job when it starts: one line if something is wrong with them."""

import contextlib
import re
import shlex
from collections.abc import Mapping, Sequence

from unstuck.clock import SYSTEM
from unstuck.console import say
from unstuck.diagnose.timeouts import judge
from unstuck.model.timeouts import KnobNote, NoteKind
from unstuck.observe.timeouts import command


def report(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Say in one line which timeout has no effect or contradicts another; nothing if all is well.

    The job runs already and does not wait for this. Whatever fails here is not the job's fault,
    and `unstuck timeouts` would say it in full.
    """
    with contextlib.suppress(Exception):
        if line := sum_up(argv, env):
            say(line)


def sum_up(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the line; empty when there is nothing to say."""
    found = judge(command.read(argv, env, SYSTEM.time()))
    wrong = [note for note in found.notes if note.kind is not NoteKind.HINT]
    if not wrong:
        return ""
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"timeouts: {_short(wrong[0])}{more}; see: unstuck timeouts -- {shlex.join(argv)}"


def _short(note: KnobNote) -> str:
    return f"{note.knobs[0]}: {re.split(r'[,;:(]', note.text)[0].strip()}"
