"""Metrics: complete, small, well named, and harmless whatever a job is called."""

import re
import shutil
import subprocess

import pytest

from scenes import job, one_sleeps, verdict_of
from unstuck.model.verdict import Cause
from unstuck.pipelines import job_status
from unstuck.pipelines.job_status import JobState, JobStatus, OpenIncident
from unstuck.show import metrics


def stalled() -> JobStatus:
    incident = OpenIncident(verdict_of(one_sleeps()), "incident-1")
    return job_status.make(one_sleeps().snapshot(), (incident,))


def values(text: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_every_state_and_cause_has_its_row_so_that_an_alert_resolves():
    found = values(metrics.render([("7", stalled())]))
    states = {state: found[f'unstuck_job_state{{run="7",state="{state}"}}'] for state in JobState}
    assert states == {state: float(state is JobState.STALLED) for state in JobState}
    causes = {one: found[f'unstuck_job_verdict{{run="7",cause="{one}"}}'] for one in Cause}
    assert sum(causes.values()) == 1
    assert found['unstuck_laggard_blamed{run="7",rank="2",host="host0"}'] == 1
    assert found['unstuck_job_ranks{run="7",state="collective"}'] == 3
    observed = found['unstuck_job_observed_timestamp_seconds{run="7"}']
    assert observed - found['unstuck_job_last_progress_timestamp_seconds{run="7"}'] == 10


def test_a_job_of_1000_ranks_has_no_1000_series():
    status = job_status.make(job(1000, per_host=100).snapshot())
    text = metrics.render([("7", status)])
    assert 'unstuck_node_up{run="7",node="host9-1",host="host9"} 1' in text
    assert len(values(text)) < 250


@pytest.mark.parametrize("state", [JobState.ENDED, JobState.UNWATCHED])
def test_of_a_job_that_nobody_sees_only_its_state_is_said(state: JobState):
    found = values(metrics.render([("7", JobStatus(state=state))]))
    assert found[f'unstuck_job_state{{run="7",state="{state}"}}'] == 1
    assert not any("observed" in name for name in found)


def test_a_hostile_name_stays_in_its_label():
    name = 'a"} 1\nunstuck_job_state{run="b\\'
    lines = metrics.render([(name, JobStatus(state=JobState.ENDED))]).splitlines()
    shape = re.compile(r'# .*|\w+\{(?:\w+="(?:[^"\\]|\\.)*",?)+\} [-\d.e+]+')
    assert all(shape.fullmatch(line) for line in lines)


def test_every_metric_is_rendered_once_and_named_by_the_conventions():
    text = metrics.render([("7", stalled()), ("8", stalled())])
    for metric in metrics.ALL:
        assert text.count(f"# TYPE {metric.name} ") <= 1
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not re.search(r"_(ms|minutes|percent|kb|mb)\b", metric.name)
        assert metric.help.endswith(".")


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs the package prometheus")
def test_promtool_finds_nothing_to_improve():
    text = metrics.render([("7", stalled())])
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
