"""From the settings of a job to what is to be said of them."""

from unstuck.diagnose.knobs import conflicts, idle
from unstuck.diagnose.knobs.propose import propose
from unstuck.model.knob import JobSettings, Layer, TimeoutsFile


def judge(job: JobSettings) -> TimeoutsFile:
    """Order the timeouts by layer, name what is wrong with them, and propose a set that fits.

    Example:
        >>> judge(JobSettings(source="nothing")).notes
        ()
    """
    order = list(Layer)
    knobs = tuple(sorted(job.knobs, key=lambda knob: order.index(knob.layer)))
    notes = (*job.notes, *idle.find(job), *conflicts.find(job))
    return TimeoutsFile(job.source, knobs, notes, propose(job, notes), job.unseen)
