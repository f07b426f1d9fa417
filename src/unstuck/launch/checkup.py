"""A look at the timeouts of a job when it starts: one line if something is wrong with them."""

import contextlib
import re
import shlex
import time
from collections.abc import Mapping, Sequence

from unstuck.console import say
from unstuck.diagnose.knobs import judge
from unstuck.model.knob import KnobNote, NoteKind
from unstuck.observe.settings import command


def tell(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Say in one line what does nothing or contradicts; nothing when all is well.

    The job runs already and does not wait for this. Whatever fails here is not the job's fault,
    and `unstuck timeouts` would say it in full.
    """
    with contextlib.suppress(Exception):
        if line := sum_up(argv, env):
            say(line)


def sum_up(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the line; empty when there is nothing to say."""
    found = judge(command.read(argv, env, time.time()))
    wrong = [note for note in found.notes if note.kind is not NoteKind.HINT]
    if not wrong:
        return ""
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"timeouts: {_short(wrong[0])}{more}; see: unstuck timeouts -- {shlex.join(argv)}"


def _short(note: KnobNote) -> str:
    return f"{note.knobs[0]}: {re.split(r'[,;:(]', note.text)[0].strip()}"
