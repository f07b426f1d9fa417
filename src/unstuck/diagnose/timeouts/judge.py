"""From the settings of a job to what is wrong with them."""

from unstuck.diagnose.timeouts import conflicts, without_effect
from unstuck.diagnose.timeouts.propose import propose
from unstuck.model.timeouts import JobSettings, Layer, TimeoutsFile


def judge(job: JobSettings) -> TimeoutsFile:
    """Order the timeouts by layer, name what is wrong with them, and propose a consistent set.

    Example:
        >>> judge(JobSettings(source="nothing")).notes
        ()
    """
    order = list(Layer)
    knobs = tuple(sorted(job.knobs, key=lambda knob: order.index(knob.layer)))
    notes = (*job.notes, *without_effect.find(job), *conflicts.find(job))
    return TimeoutsFile(job.source, knobs, notes, propose(job, notes), job.unseen)
