"""What people have asked of a running job's watchers: part of the snapshot, so that it replays."""

from msgspec import Struct

from unstuck.model.bounds import Number


class Controls(Struct, frozen=True, omit_defaults=True):
    """How patient diagnosis should be at this moment."""

    paused_left: Number = 0.0
    """Seconds until stalls are judged again; 0: they are. Deaths are named all the same."""
    resumed_for: Number | None = None
    """Seconds since stalls are judged again, just after a pause: nothing was looked at in it."""
    patience: Number = 0.0
    """Seconds that replace the learned patience; 0: learned."""
    sections: dict[str, Number] = {}
    """Seconds that replace the deadline of a section, by its name."""
