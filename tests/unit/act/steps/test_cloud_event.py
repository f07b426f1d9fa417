"""The envelope is a CloudEvent by the words of its own SDK."""

import msgspec
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from scenes import one_sleeps, verdict_of
from unstuck.act.steps import cloud_event


def test_the_sdk_reads_it():
    verdict = verdict_of(one_sleeps())
    made = cloud_event.of_verdict(verdict, "host 1/20261118-train")
    read = JSONFormat().read(CloudEvent, msgspec.json.encode(made))
    assert read.get_type() == "unstuck.verdict"
    assert read.get_source() == "/unstuck/host%201/20261118-train"
    assert read.get_subject() == "rank 2"
    assert read.get_extension("cause") == verdict.cause
    data = read.get_data()
    assert isinstance(data, dict)
    assert data["schema"] == "unstuck.verdict/1"


def test_the_same_verdict_has_the_same_id_and_another_job_another():
    verdict = verdict_of(one_sleeps())
    ids = [cloud_event.of_verdict(verdict, source)["id"] for source in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]
