"""The last operations as a Perfetto trace."""

import json

from scenes import job, one_sleeps
from unstuck.explain.report.incident import trace


def test_every_waiting_rank_has_a_slice_until_now():
    events = json.loads(trace.render(one_sleeps().snapshot()))["traceEvents"]

    slices = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in slices} == {0, 1, 3}
    assert all(event["cat"] == "in flight" for event in slices)
    assert all(event["ts"] + event["dur"] == 0 for event in slices)


def test_without_a_recorder_there_is_nothing_to_trace():
    assert trace.is_empty(job().snapshot())
    assert not trace.is_empty(one_sleeps().snapshot())
