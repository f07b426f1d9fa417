"""Signs of life of a rank that holds others up: does anything in its process tree still happen?

A rank that works, reads or sends will arrive by itself, however long it takes. Only one without
any sign of life may be stuck, and only time can tell.
"""

from enum import StrEnum

from msgspec import Struct

from unstuck.model.bounds import Number


class Sign(StrEnum):
    """One kind of sign, in the rank itself, its threads, its workers or their children."""

    CPU = "cpu"
    """Processor time."""
    IO = "io"
    """Bytes read or written: files, pipes, terminals."""
    NETWORK = "network"
    """Bytes that arrived, or that the other side has acknowledged."""
    CODE = "code"
    """A line of the script at which it had not been before since it last made progress."""
    CHILDREN = "children"
    """Child processes that were started or that ended."""


class Life(Struct, frozen=True, omit_defaults=True):
    """What the process tree of a rank has done since somebody began to look."""

    looked_for: Number
    """Seconds since then."""
    quiet_for: Number
    """Seconds since the last sign of any kind; `looked_for` where there was none."""
    signs: tuple[Sign, ...] = ()
    """The kinds that the last look has shown."""
    cpu: Number = 0.0
    """Cores that the tree uses."""
    io: Number = 0.0
    """Bytes a second that it reads and writes."""
    network: Number = 0.0
    """Bytes a second that arrive or are acknowledged."""
