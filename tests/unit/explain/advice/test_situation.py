"""Which advice fits goes by what the culprit does; and no advice is there that nothing leads to."""

import msgspec
import pytest

from unstuck.explain.advice.advice import texts
from unstuck.explain.advice.situation import NOBODY, first_culprit, situation
from unstuck.model import doing as d
from unstuck.model.host import OtherProcess
from unstuck.model.neighbour import Neighbour
from unstuck.model.verdict import Cause, Confidence, Culprit, CutLink, Verdict

CHILD = (Neighbour(77, "sh"),)
MAKE = OtherProcess(77, "make")
CUT = (CutLink("node1", "node2", 7.0),)
BY_ACTIVITY: list[tuple[Cause, d.Activity, str]] = [
    (Cause.NEVER_JOINED, d.NotJoined(d.Asleep()), "late"),
    (Cause.NEVER_JOINED, d.Ended(d.Ending.UNJOINED), "ended"),
    (Cause.HARDWARE_FAULT, d.DeviceStopped("group 3", 40, 42), "device"),
    (Cause.PROCESS_CRASH, d.Raised("ValueError: bad batch"), "raised"),
    (Cause.PROCESS_CRASH, d.Raised("RuntimeError: Bus error"), "SIGBUS"),
    (Cause.PROCESS_CRASH, d.Killed("SIGKILL"), "SIGKILL"),
    (Cause.PROCESS_CRASH, d.Killed("SIGSEGV"), "SIGSEGV"),
    (Cause.PROCESS_CRASH, d.Killed("SIGSEGV", d.During.LINE), "SIGSEGV-line"),
    (Cause.PROCESS_CRASH, d.Killed("SIGABRT"), "SIGABRT"),
    (Cause.PROCESS_CRASH, d.Killed("SIGABRT", d.During.LINE), "SIGABRT"),
    (Cause.PROCESS_CRASH, d.Killed("SIGABRT", d.During.SHUTDOWN), "shutdown"),
    (Cause.PROCESS_CRASH, d.Killed("SIGSEGV", d.During.AFTER_DESTROY), "after-destroy"),
    (Cause.PROCESS_CRASH, d.LostLauncher("SIGTERM"), "SIGTERM"),
    (Cause.PROCESS_CRASH, d.Killed("SIGHUP"), "SIGHUP"),
    (Cause.PROCESS_CRASH, d.Ended(d.Ending.VANISHED), "SIGKILL"),
    (Cause.OUT_OF_MEMORY, d.Raised("MemoryError"), "raised"),
    (Cause.OUT_OF_MEMORY, d.Raised("torch.OutOfMemoryError: CUDA out of memory"), "device"),
    (Cause.PROCESS_STOPPED, d.Stopped(d.Hold.DEBUGGER), "debugger"),
    (Cause.PROCESS_STOPPED, d.Stopped(d.Hold.FREEZER), "freezer"),
    (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.CORE, 0.5, MAKE), "taker"),
    (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.QUOTA, 0.5), "quota"),
    (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.MEMORY, 0.5), "memory"),
    (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.STEAL, 0.5), "steal"),
    (
        Cause.RESOURCE_CONTENTION,
        d.Slow(0.3, 0.1, lacks=d.Starved(d.Resource.DISK, 0.5, MAKE)),
        "disk",
    ),
    (Cause.HOST_DEADLOCK, d.HoldsGil(), "gil"),
    (Cause.HOST_DEADLOCK, d.WaitsForWorkers(), "dataloader"),
    (Cause.HOST_DEADLOCK, d.WaitsForInput(how=d.Input.QUEUE), "queue"),
    (Cause.HOST_DEADLOCK, d.WaitsForThread(), "thread"),
    (Cause.BUSY_ELSEWHERE, d.WaitsForInput(how=d.Input.REQUEST), "input"),
    (Cause.HOST_DEADLOCK, d.WaitsForDisk(), "disk"),
    (Cause.HOST_DEADLOCK, d.WaitsForData(d.Source.SOCKET), "data"),
    (Cause.HOST_DEADLOCK, d.WaitsForProcess(CHILD, d.Child.DATA), "data"),
    (Cause.HOST_DEADLOCK, d.WaitsForProcess(CHILD, d.Child.STOPPED), "child-stopped"),
    (Cause.HOST_DEADLOCK, d.WaitsForProcess(CHILD, d.Child.LOCKED), "child-locked"),
    (Cause.HOST_DEADLOCK, d.WaitsForFileLock(), "file-lock"),
    (Cause.HOST_DEADLOCK, d.WaitsForFileLock(holders=CHILD), "file-lock-held"),
    (Cause.HOST_DEADLOCK, d.WaitsForReader(), "full-pipe"),
    (Cause.HOST_DEADLOCK, d.WaitsForReader(readers=CHILD), "full-pipe-read"),
    (Cause.COLLECTIVE_MISMATCH, d.InCall("new_group"), "new-group"),
    (Cause.COLLECTIVE_MISMATCH, d.InCall("a collective", "new_group"), "new-group"),
    (Cause.COLLECTIVE_MISMATCH, d.Unanswered("send", 1, 3), "message"),
    (Cause.COLLECTIVE_MISMATCH, d.Unposted(), "message"),
    (Cause.UNEVEN_WORK, d.StillInLoop("train.py:12"), "more"),
    (Cause.BUSY_ELSEWHERE, d.Asleep(), "asleep"),
    (Cause.BUSY_ELSEWHERE, d.WaitsForData(d.Source.SOCKET), "data"),
    (Cause.BUSY_ELSEWHERE, d.WaitsForProcess(CHILD, d.Child.EXIT), "data"),
    (Cause.BUSY_ELSEWHERE, d.Busy(d.Work.SAVING), "saving"),
    (Cause.BUSY_ELSEWHERE, d.Computing(section="checkpoint"), "saving"),
    (Cause.UNKNOWN, d.Unclear(), "rank"),
]


def verdict(cause: Cause, activity: d.Activity | None = None, **known: object) -> Verdict:
    culprit = Culprit(2, "node7", "", pid=4711, activity=activity)
    found = Verdict(cause, Confidence.CERTAIN, (culprit,), (0, 1), "2026-11-15T12:29:27+00:00")
    return msgspec.structs.replace(found, **known)


BY_VERDICT = [
    (verdict(Cause.NETWORK_PARTITION, cut=CUT), "between"),
    (verdict(Cause.NETWORK_PARTITION, cut=CUT, until="2026-11-15T12:30:00Z"), "back"),
    (verdict(Cause.NETWORK_PARTITION, until="2026-11-15T12:30:00Z", victims=()), "over"),
    (verdict(Cause.COLLECTIVE_MISMATCH, culprits=()), "nobody"),
    (verdict(Cause.ORDER_INVERSION, confidence=Confidence.POSSIBLE), "even"),
    (verdict(Cause.BUSY_ELSEWHERE, culprits=()), "all"),
    (verdict(Cause.BUSY_ELSEWHERE, victims=()), "lingers"),
]


@pytest.mark.parametrize(("cause", "activity", "variant"), BY_ACTIVITY)
def test_what_the_culprit_does_decides(cause: Cause, activity: d.Activity, variant: str) -> None:
    assert situation(verdict(cause, activity)) == f"{cause}/{variant}"


@pytest.mark.parametrize(("found", "variant"), BY_VERDICT)
def test_where_no_culprit_says_it_the_verdict_does(found: Verdict, variant: str) -> None:
    assert situation(found) == f"{found.cause}/{variant}"


@pytest.mark.parametrize("cause", Cause)
def test_a_verdict_of_an_older_version_still_gets_advice(cause: Cause) -> None:
    assert situation(verdict(cause)) in texts()[0]


def test_everything_that_is_written_can_be_said() -> None:
    reached = {f"{cause}/{variant}" for cause, _, variant in BY_ACTIVITY}
    reached |= {f"{found.cause}/{variant}" for found, variant in BY_VERDICT}
    assert reached | {str(cause) for cause in Cause} == set(texts()[0])


def test_the_first_culprit_is_one_of_the_verdicts_own_cause() -> None:
    other = Culprit(0, "node1", "", cause=Cause.OUT_OF_MEMORY)
    found = verdict(Cause.PROCESS_CRASH)
    both = msgspec.structs.replace(found, culprits=(other, *found.culprits))
    assert first_culprit(both).rank == 2
    assert first_culprit(msgspec.structs.replace(found, culprits=(other,))) == other
    assert first_culprit(msgspec.structs.replace(found, culprits=())) is NOBODY
