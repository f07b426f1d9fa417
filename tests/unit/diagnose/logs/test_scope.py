"""A failure of one program is not a failure of the job."""

from log_scenes import RECORDS, match, verdict
from unstuck.diagnose.logs.verdict import diagnose
from unstuck.model.logs import (
    LogReading,
)
from unstuck.model.verdict import Cause


def test_memory_that_ran_out_in_one_process_is_not_a_failure_of_a_job():
    assert diagnose(LogReading((match("oom", 1),)), RECORDS) is None


def test_refused_arguments_are_not_a_failure_of_the_job():
    reading = LogReading((match("closed", 9),), usage_error=True, distributed=True)
    assert diagnose(reading, RECORDS) is None


def test_a_full_disk_is_a_failure_of_a_job_only_where_there_is_one():
    assert diagnose(LogReading((match("full", 1),)), RECORDS) is None
    assert verdict([match("full", 1, 0)]).cause is Cause.RESOURCE_CONTENTION
