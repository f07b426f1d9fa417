"""The exit codes 80-89 of `unstuck run`: what a scheduler should do next. Frozen.

They are given only where a policy may act (`--recover`, `--on`). 87-89 are reserved.
"""

from enum import IntEnum


class Exit(IntEnum):
    """Each says what to do next; the verdict in the run directory says why."""

    RETRY = 80
    """Restart the job as it is."""
    WITHOUT_NODE = 81
    """Restart it without the nodes that are named in `excluded.json`."""
    CODE = 82
    """Do not restart it: the script or its data must change first."""
    SETTINGS = 83
    """Do not restart it: a setting must change first."""
    PERSON = 84
    """Do not restart it before a person has looked at it."""
    STORM = 85
    """Given up: it was restarted several times without progress."""
    LEFT = 86
    """This node has left the job, which may continue without it: excluded, or cut off."""


ADVICE = {
    Exit.RETRY: "restart the job as it is",
    Exit.WITHOUT_NODE: "restart the job without the excluded nodes",
    Exit.CODE: "do not restart it before the script or its data is changed",
    Exit.SETTINGS: "do not restart it before the setting is changed",
    Exit.PERSON: "do not restart it before a person has looked at it",
    Exit.STORM: "do not restart it: restarts did not help",
    Exit.LEFT: "this node has left the job; the others may continue",
}
"""What each code means for a scheduler."""

STOP_WORDS = {
    "retry": Exit.RETRY,
    "node": Exit.WITHOUT_NODE,
    "code": Exit.CODE,
    "settings": Exit.SETTINGS,
    "person": Exit.PERSON,
}
"""How a policy names the code of a stop: `stop:code`."""
