"""The timeouts of a job: what is set and by whom, what is wrong with it, what would fit."""

from enum import StrEnum

from msgspec import Struct

SCHEMA = "unstuck.timeouts/1"
SETTINGS_SCHEMA = "unstuck.settings/1"


class Layer(StrEnum):
    """The nested layers, innermost first: each should end before the next one does."""

    OPERATION = "operation"
    """One call: `barrier(timeout=)`, `unstuck.dist.all_reduce(timeout=)`."""
    SECTION = "section"
    """A part of the script: `unstuck.section`, a DataLoader's `timeout`."""
    UNSTUCK = "unstuck"
    """How long unstuck waits before it says who holds the job up."""
    GROUP = "process group"
    WATCHDOG = "watchdog"
    """NCCL's own threads in torch."""
    STORE = "store"
    LAUNCHER = "launcher"
    SCHEDULER = "scheduler"


class Origin(StrEnum):
    """Who set a value."""

    DEFAULT = "default"
    SCRIPT = "script"
    COMMAND = "command"
    ENVIRONMENT = "environment"
    SCHEDULER = "scheduler"
    UNSTUCK = "unstuck"


class Knob(Struct, frozen=True, omit_defaults=True):
    """One timeout as it is in effect."""

    name: str
    layer: Layer
    seconds: float | None = None
    """None for a switch, and for a limit that cannot be read."""
    value: str = ""
    """As it was given, where that is not the seconds themselves."""
    origin: Origin = Origin.DEFAULT
    where: str = ""
    """File and line, or option, or variable."""
    about: str = ""
    """What it belongs to or does: `4 ranks`, `gloo, mesh_dp`."""
    backend: str = ""
    """Of a process group."""
    ranks: tuple[int, ...] = ()
    """The ranks that have it, where not all have."""


def default_group_timeout(backend: str) -> float:
    """Return the timeout in seconds that torch gives a process group made without one.

    Example:
        >>> default_group_timeout("gloo")
        1800.0
    """
    return 600.0 if backend == "nccl" else 1800.0


class NoteKind(StrEnum):
    """`IDLE`: it does nothing. `CONFLICT`: it contradicts another. `HINT`: worth knowing."""

    IDLE = "idle"
    CONFLICT = "conflict"
    HINT = "hint"


class KnobNote(Struct, frozen=True, omit_defaults=True):
    """What is wrong with one knob or between several."""

    kind: NoteKind
    knobs: tuple[str, ...]
    text: str
    source: str = ""
    """How that is known."""


class Setting(Struct, frozen=True):
    """One line to copy, and why."""

    place: str
    """Where it goes: `shell`, `script`, `command`, `batch script`."""
    line: str
    why: str


class JobSettings(Struct, frozen=True, omit_defaults=True):
    """Everything that is known of a job's timeouts: what the judgement is made from."""

    source: str
    """`4 ranks of runs/7`, `torchrun … train.py`, `the environment`."""
    knobs: tuple[Knob, ...] = ()
    backends: tuple[str, ...] = ()
    """Of the process groups; empty while not known."""
    several_nodes: bool = False
    env: dict[str, str] = {}
    """The variables that matter, as the lowest rank has them."""
    read_by_script: tuple[str, ...] = ()
    """Variables that the script reads itself, so that they may well do something."""
    waited: float = 0.0
    """The longest that an operation was in flight so far, on the rank that waited longest."""
    longest: float = 0.0
    """The longest that a rank worked on its own so far, or what the user said."""
    longest_at: str = ""
    notes: tuple[KnobNote, ...] = ()
    """What was seen while reading: calls that cannot work, files that could not be read."""
    unseen: tuple[str, ...] = ()


class SettingsFile(Struct, frozen=True):
    """What a run directory keeps: the settings as the ranks have them, not judged."""

    settings: JobSettings
    schema: str = SETTINGS_SCHEMA


class TimeoutsFile(Struct, frozen=True):
    """The machine-readable form of `unstuck timeouts`."""

    source: str
    knobs: tuple[Knob, ...]
    notes: tuple[KnobNote, ...]
    proposal: tuple[Setting, ...]
    unseen: tuple[str, ...] = ()
    schema: str = SCHEMA
