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
    │   ├── SettingsError                     the timeouts of a run cannot be read
    │   ├── ConfigError                       unstuck.toml cannot be read
    │   │   └── PolicyError                   a policy does not make sense
    │   ├── ScenarioError                     a scenario of the fault lab cannot be used
    │   ├── TensorInUseError                  a timed-out collective still uses the tensor
    │   ├── GroupBusyError                    an unfinished operation holds the process group
    │   ├── GroupGivenUpError                 the process group was given up and not rebuilt
    │   └── RecordError                       a knowledge-base record cannot be used
    │       └── RecordNotFoundError           there is no record of that name
    ├── WorldError                   exit 3   the machine refused: disk, permission, socket
    │   ├── BundleWriteError                  the incident could not be stored
    │   ├── CollectiveTimeout                 ranks did not come in time (unstuck.dist.errors)
    │   ├── RebuildError                      a process group could not be made new
    │   └── LabError                          the fault lab cannot work on this machine
    │       └── JobOverdueError               a job of the lab did not do in time what it should
    └── InternalError                exit 4   our bug, never yours

Exit codes of the commands themselves: 0 nothing is wrong, 1 a problem was found,
130 interrupted, 141 nobody reads our output. 80-89 tell a scheduler what to do next: see
`model/exits.py`.

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


class SettingsError(UserError):
    """The timeouts of a run cannot be read, or there is no such run."""


class ConfigError(UserError):
    """The file unstuck.toml cannot be read, or says what it must not."""


class PolicyError(ConfigError):
    """A policy does not make sense: no such cause or action, or a limit that is none."""


class ScenarioError(UserError):
    """A scenario of the fault lab cannot be used, or there is none of that name."""


class TensorInUseError(UserError):
    """A collective that ran out of time still uses the tensor, or spoiled it."""


class GroupBusyError(UserError):
    """An unfinished operation holds the process group; another one would mix with it."""


class GroupGivenUpError(UserError):
    """The process group was given up and not yet rebuilt."""


class RecordError(UserError):
    """A knowledge-base record, or a place to read records from, cannot be used."""


class RecordNotFoundError(RecordError):
    """There is no record of that name."""


class WorldError(UnstuckError):
    """The machine or the network refused: disk, permission, socket."""

    exit_code = 3


class BundleWriteError(WorldError):
    """The incident could not be stored."""


class RebuildError(WorldError):
    """A process group could not be made new: not everybody came, or there is no way to meet."""


class LabError(WorldError):
    """The fault lab cannot work on this machine: torch or a right is missing."""


class JobOverdueError(LabError):
    """A job of the lab did not do in time what it should; its last words are in the message."""


class InternalError(UnstuckError):
    """Our bug, never yours."""

    exit_code = 4
