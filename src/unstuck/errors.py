"""What can go wrong, and who can fix it.

    UnstuckError
    ├── UserError                    exit 2   you can fix it: an argument, a file, a setting
    │   ├── UsageError                        the command line is not valid
    │   ├── BundleError                       this is not an incident bundle
    │   │   ├── BundleNotFoundError           the path does not exist
    │   │   ├── BundleDamagedError            one of its files is missing, truncated or unreadable
    │   │   └── BundleSchemaError             written with a schema that this version does not know
    │   ├── LogError                          this is not a log that can be read
    │   │   ├── LogNotFoundError              the path does not exist
    │   │   └── LogUnreadableError            no permission, damaged, or a package is missing
    │   ├── DumpError                         these are not flight-recorder dumps
    │   │   ├── DumpDamagedError              a dump is truncated or lacks fields
    │   │   └── DumpUnsafeError               a pickle that would run code when loaded
    │   ├── SettingsError                     the timeouts of a run cannot be read
    │   ├── ConfigError                       unstuck.toml cannot be read
    │   │   └── PolicyError                   a policy is not valid
    │   ├── ScenarioError                     a scenario of the fault lab cannot be used
    │   ├── TensorInUseError                  a timed-out collective still uses the tensor
    │   ├── GroupBusyError                    an unfinished operation occupies the process group
    │   ├── GroupGivenUpError                 the process group was abandoned and not rebuilt
    │   └── RecordError                       a knowledge-base record cannot be used
    │       └── RecordNotFoundError           there is no record with that name
    ├── WorldError                   exit 3   the machine refused: disk, permission, socket
    │   ├── BundleWriteError                  the incident could not be stored
    │   ├── CollectiveTimeout                 ranks were late (unstuck.dist)
    │   ├── RebuildError                      a process group could not be rebuilt
    │   └── LabError                          the fault lab cannot run on this machine
    │       └── JobOverdueError               a job of the lab took too long
    └── InternalError                exit 4   a bug in unstuck, not in your job

Exit codes of the commands themselves: 0 nothing is wrong, 1 a problem was found,
130 interrupted, 141 the reader of our output is gone. 80-89 tell a scheduler what to do next:
see `model/exits.py`.

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
    """The user can fix it: an argument, a file, a setting."""

    exit_code = 2


class UsageError(UserError):
    """The command line is not valid."""


class BundleError(UserError):
    """The path is not an incident bundle that can be read."""


class BundleNotFoundError(BundleError):
    """The path does not exist."""


class BundleDamagedError(BundleError):
    """A file of the bundle is missing, truncated or unreadable."""


class BundleSchemaError(BundleError):
    """The bundle was written with a schema that this version does not know."""


class LogError(UserError):
    """The path is not a log that can be read."""


class LogNotFoundError(LogError):
    """The path does not exist."""


class LogUnreadableError(LogError):
    """No permission, damaged, or the package that reads it is missing."""


class DumpError(UserError):
    """The files cannot be read as flight-recorder dumps."""


class DumpDamagedError(DumpError):
    """A dump is truncated, or lacks fields that every dump has."""


class DumpUnsafeError(DumpError):
    """A pickle asks to load or call code; a dump never does."""


class SettingsError(UserError):
    """The timeouts of a run cannot be read, or there is no such run."""


class ConfigError(UserError):
    """The file unstuck.toml cannot be read, or has invalid content."""


class PolicyError(ConfigError):
    """A policy is not valid: an unknown cause or action, or an invalid limit."""


class ScenarioError(UserError):
    """A scenario of the fault lab cannot be used or does not exist."""


class TensorInUseError(UserError):
    """A collective that timed out still uses the tensor, or left it incomplete."""


class GroupBusyError(UserError):
    """An unfinished operation occupies the process group; another would interfere with it."""


class GroupGivenUpError(UserError):
    """The process group was abandoned and has not been rebuilt."""


class RecordError(UserError):
    """A knowledge-base record, or a place to read records from, cannot be used."""


class RecordNotFoundError(RecordError):
    """There is no record with that name."""


class WorldError(UnstuckError):
    """The machine or the network refused: disk, permission, socket."""

    exit_code = 3


class BundleWriteError(WorldError):
    """The incident could not be stored."""


class RebuildError(WorldError):
    """A process group could not be rebuilt: ranks have not arrived, or could not agree."""


class LabError(WorldError):
    """The fault lab cannot run on this machine: torch or a permission is missing."""


class JobOverdueError(LabError):
    """A job of the lab took too long; the end of its output is in the message."""


class InternalError(UnstuckError):
    """A bug in unstuck."""

    exit_code = 4
