"""What can go wrong, and whose turn it is.

    UnstuckError
    ├── UserError                    exit 2   you can put it right: an argument, a file, a setting
    │   ├── UsageError                        the command line does not make sense
    │   ├── BundleError                       what was given is not an incident bundle
    │   │   ├── BundleNotFoundError           nothing is at that path
    │   │   ├── BundleDamagedError            a file of it is missing, cut short or unreadable
    │   │   └── BundleSchemaError             written with a schema this version does not know
    │   ├── LogError                          what was given is not a log that can be read
    │   │   ├── LogNotFoundError              nothing is at that path
    │   │   └── LogUnreadableError            no permission, damaged, or its reader is missing
    │   ├── DumpError                         what was given are no flight-recorder dumps
    │   │   ├── DumpDamagedError              a dump is cut short or does not hold what it should
    │   │   └── DumpUnsafeError               a pickle that would run code when loaded
    │   └── RecordError                       a knowledge-base record cannot be used
    │       └── RecordNotFoundError           there is no record of that name
    ├── WorldError                   exit 3   the machine refused: disk, permission, socket
    │   └── BundleWriteError                  the incident could not be stored
    └── InternalError                exit 4   our bug, never yours

Exit codes of the commands themselves: 0 nothing is wrong, 1 a problem was found,
130 interrupted, 141 nobody reads our output. 80-89 are reserved: later they tell a
scheduler what to do next.

Code raises; only `unstuck.show.cli.main.main` catches, prints and turns an error into its
exit code.
"""

from typing import ClassVar


class UnstuckError(Exception):
    """Base of every error that unstuck raises on purpose.

    Example:
        raise BundleNotFoundError("nothing is at runs/7", hint="ls runs")
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """What to type or do next; empty when there is nothing useful to say."""


class UserError(UnstuckError):
    """You can put it right: an argument, a file, a setting."""

    exit_code = 2


class UsageError(UserError):
    """The command line does not make sense."""


class BundleError(UserError):
    """What was given is not an incident bundle that can be read."""


class BundleNotFoundError(BundleError):
    """Nothing is at that path."""


class BundleDamagedError(BundleError):
    """A file of the bundle is missing, cut short or unreadable."""


class BundleSchemaError(BundleError):
    """The bundle was written with a schema this version does not know."""


class LogError(UserError):
    """What was given is not a log that can be read."""


class LogNotFoundError(LogError):
    """Nothing is at that path."""


class LogUnreadableError(LogError):
    """No permission, damaged, or the package that reads it is missing."""


class DumpError(UserError):
    """What was given cannot be read as flight-recorder dumps."""


class DumpDamagedError(DumpError):
    """A dump is cut short or does not hold what it should."""


class DumpUnsafeError(DumpError):
    """A pickle asks to load or call code; a dump never does."""


class RecordError(UserError):
    """A knowledge-base record, or a place to read records from, cannot be used."""


class RecordNotFoundError(RecordError):
    """There is no record of that name."""


class WorldError(UnstuckError):
    """The machine or the network refused: disk, permission, socket."""

    exit_code = 3


class BundleWriteError(WorldError):
    """The incident could not be stored."""


class InternalError(UnstuckError):
    """Our bug, never yours."""

    exit_code = 4
