"""The exit codes 80-89 of `unstuck run`: what a scheduler should do next. Frozen.

They are given only where a policy may act (`--recover`, `--on`). 87-89 are reserved.
"""

from enum import IntEnum


class Exit(IntEnum):
    """Each says what to do next; the verdict in the run directory says why."""

    RETRY = 80
    """Start the job again as it is."""
    WITHOUT_NODE = 81
    """Start it again without the nodes that are named in `excluded.json`."""
    CODE = 82
    """Do not start it again: the script or its data must change first."""
    SETTINGS = 83
    """Do not start it again: a setting must change first."""
    PERSON = 84
    """Do not start it again before somebody has looked."""
    STORM = 85
    """Given up: it was restarted again and again and got no further."""
    LEFT = 86
    """This node has left the job, which may go on without it: excluded, or cut off."""


ADVICE = {
    Exit.RETRY: "start the job again as it is",
    Exit.WITHOUT_NODE: "start the job again without the excluded nodes",
    Exit.CODE: "do not start it again before the script or its data was changed",
    Exit.SETTINGS: "do not start it again before the setting was changed",
    Exit.PERSON: "do not start it again before somebody has looked",
    Exit.STORM: "do not start it again: restarts did not help",
    Exit.LEFT: "this node has left the job; the others may go on",
}
"""What each code tells a scheduler, in words."""

STOP_WORDS = {
    "retry": Exit.RETRY,
    "node": Exit.WITHOUT_NODE,
    "code": Exit.CODE,
    "settings": Exit.SETTINGS,
    "person": Exit.PERSON,
}
"""How a policy names the code of a stop: `stop:code`."""
