"""Every cause has advice that can be followed as it stands."""

import msgspec
import pytest

from unstuck.explain.advice.advice import advise, texts
from unstuck.model import doing as d
from unstuck.model.host import OtherProcess
from unstuck.model.neighbour import Neighbour
from unstuck.model.verdict import (
    Cause,
    Confidence,
    Culprit,
    Evidence,
    Role,
    StuckOperation,
    Verdict,
)

RSYNC = Neighbour(77, "rsync")
MAKE = OtherProcess(77, "make all")


def verdict(cause: Cause, activity: d.Activity | None = None, **known: object) -> Verdict:
    culprit = Culprit(2, "node7", "is somewhere", pid=4711, activity=activity)
    return Verdict(
        cause=cause,
        confidence=Confidence.CERTAIN,
        culprits=(msgspec.structs.replace(culprit, **known),),
        victims=(0, 1, 3),
        since="2026-11-15T12:29:27+00:00",
        stuck=StuckOperation("all_reduce", 7, "0", 4, waiting=(0, 1, 3), missing=(2,)),
    )


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("blamed", [True, False])
def test_every_cause_has_short_advice_with_reasons(cause: Cause, blamed: bool) -> None:
    before = verdict(cause)
    if not blamed:
        before = msgspec.structs.replace(before, culprits=(), stuck=None)
    after = advise(before)

    assert 1 <= len(after.do) <= 3
    assert 1 <= len(after.dont) <= 2
    assert all(item.startswith("do not ") and ": " in item for item in after.dont)
    assert not any(item.startswith("do not") for item in after.do)
    assert len({*after.do, *after.dont}) == len(after.do) + len(after.dont)
    assert all(item.count("`") % 2 == 0 for item in (*after.do, *after.dont))
    assert msgspec.structs.replace(after, do=(), dont=()) == before


@pytest.mark.parametrize(
    ("cause", "activity", "words"),
    [
        (Cause.PROCESS_STOPPED, d.Stopped(d.Hold.SIGNAL), "on node7: `kill -CONT 4711`"),
        (Cause.PROCESS_STOPPED, d.Stopped(d.Hold.DEBUGGER), "TracerPid"),
        (Cause.PROCESS_STOPPED, d.Stopped(d.Hold.FREEZER), "docker unpause"),
        (Cause.NEVER_JOINED, d.NotJoined(d.Asleep()), "py-spy dump"),
        (Cause.NEVER_JOINED, d.Ended(d.Ending.UNJOINED), "exits before init_process_group"),
        (Cause.STRAGGLER, d.Slow(0.3, 0.1), "py-spy record -d 20"),
        (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.CORE, 0.5), "top -b -n 1"),
        (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.CORE, 0.5, MAKE), "cmd -p 77"),
        (
            Cause.RESOURCE_CONTENTION,
            d.Slow(0.3, 0.1, lacks=d.Starved(d.Resource.CORE, 0.5, MAKE)),
            "cmd -p 77",
        ),
        (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.QUOTA, 0.5), "/4711/cgroup"),
        (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.MEMORY, 0.5), "free -h"),
        (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.DISK, 0.5), "iostat -x"),
        (Cause.RESOURCE_CONTENTION, d.Starved(d.Resource.STEAL, 0.5), "vmstat"),
        (Cause.HOST_DEADLOCK, d.HoldsGil(), "py-spy dump --native --pid 4711"),
        (Cause.HOST_DEADLOCK, d.WaitsForWorkers(), "ps --ppid 4711"),
        (Cause.HOST_DEADLOCK, d.WaitsForDisk(), "/proc/4711/stack"),
        (Cause.HOST_DEADLOCK, d.WaitsForData(d.Source.PIPE), "/proc/4711/fd"),
        (Cause.HOST_DEADLOCK, d.WaitsForLock(), "py-spy dump --locals --pid 4711"),
        (Cause.HOST_DEADLOCK, d.WaitsForFileLock(), "`lslocks`"),
        (Cause.HOST_DEADLOCK, d.WaitsForFileLock("/data/index", (RSYNC,)), "etime,cmd -p 77`"),
        (Cause.HOST_DEADLOCK, d.WaitsForReader(readers=(RSYNC,)), "etime,cmd -p 77`"),
        (Cause.HOST_DEADLOCK, d.WaitsForReader(), "/proc/4711/fd"),
        (
            Cause.HOST_DEADLOCK,
            d.WaitsForProcess((RSYNC, Neighbour(78)), d.Child.STOPPED),
            "`kill -CONT 77 78`",
        ),
        (
            Cause.HOST_DEADLOCK,
            d.WaitsForProcess((RSYNC,), d.Child.LOCKED),
            "py-spy dump --pid 77`",
        ),
        (
            Cause.COLLECTIVE_MISMATCH,
            d.InCall("a collective", "new_group"),
            "call new_group on every rank",
        ),
        (Cause.COLLECTIVE_MISMATCH, d.InCall("new_group"), "call new_group on every rank"),
        (Cause.COLLECTIVE_MISMATCH, d.Unanswered("send", 1, 3), "each send needs one recv"),
        (Cause.COLLECTIVE_MISMATCH, d.Runs("broadcast", 31, "0"), "same operation, shape"),
        (Cause.PROCESS_CRASH, d.Raised("ValueError: worker got SIGKILL"), "fix the error"),
        (Cause.PROCESS_CRASH, d.Killed("SIGKILL"), "dmesg"),
        (Cause.PROCESS_CRASH, d.LostLauncher("SIGKILL"), "dmesg"),
        (Cause.PROCESS_CRASH, d.Ended(d.Ending.VANISHED), "dmesg"),
        (Cause.PROCESS_CRASH, d.Killed("SIGSEGV"), "PYTHONFAULTHANDLER=1"),
        (Cause.PROCESS_CRASH, d.Killed("SIGSEGV", d.During.LINE), "the library that is called"),
        (Cause.PROCESS_CRASH, d.Killed("SIGBUS"), "df -h /dev/shm"),
        (Cause.PROCESS_CRASH, d.Raised("RuntimeError: Bus error"), "df -h /dev/shm"),
        (Cause.PROCESS_CRASH, d.Killed("SIGABRT"), "line above the abort"),
        (Cause.PROCESS_CRASH, d.Killed("SIGABRT", d.During.SHUTDOWN), "destroy_process_group()"),
        (Cause.PROCESS_CRASH, d.Killed("SIGABRT", d.During.AFTER_DESTROY), "os._exit(0)"),
        (Cause.PROCESS_CRASH, d.Killed("SIGTERM"), "scontrol show job"),
        (Cause.PROCESS_CRASH, d.Killed("SIGHUP"), "tmux"),
        (Cause.PROCESS_CRASH, d.Killed("SIGUSR1"), "last lines of rank 2's own stderr"),
        (Cause.PROCESS_CRASH, d.Exited(3), "last lines of rank 2's own stderr"),
        (Cause.OUT_OF_MEMORY, d.Killed("SIGKILL"), "killed process"),
        (Cause.OUT_OF_MEMORY, d.Raised("MemoryError"), "free -h"),
        (Cause.OUT_OF_MEMORY, d.Raised("OutOfMemoryError: CUDA out of memory"), "GPU memory"),
        (Cause.BUSY_ELSEWHERE, d.Asleep(), "what rank 2 sleeps for there"),
        (Cause.UNKNOWN, d.Unclear(), "what rank 2 does"),
    ],
)
def test_first_thing_to_do_follows_what_the_culprit_does(
    cause: Cause, activity: d.Activity, words: str
) -> None:
    assert words in advise(verdict(cause, activity)).do[0]


def test_every_text_belongs_to_a_situation_and_every_situation_has_its_texts() -> None:
    causes = {str(cause) for cause in Cause}
    tables, shared = texts()
    assert causes <= set(tables)
    assert {name.split("/")[0] for name in tables} == causes
    lines = [line for one in tables.values() for line in (*one.do, *one.dont)]
    named = {line for line in lines if isinstance(line, str)}
    assert named | {"longer-missing"} == set(shared)


def test_what_a_program_printed_is_never_taken_for_our_own_words() -> None:
    odd = verdict(Cause.HOST_DEADLOCK, d.WaitsForLock(section="waits for data from a pipe"))
    assert "py-spy dump --locals" in advise(odd).do[0]


def test_the_first_culprit_of_the_cause_decides_not_one_of_another_fault() -> None:
    killed = verdict(Cause.PROCESS_CRASH, d.Killed("SIGSEGV"))
    other = Culprit(0, "node1", "", cause=Cause.OUT_OF_MEMORY, activity=d.Killed("SIGKILL"))
    both = msgspec.structs.replace(killed, culprits=(other, *killed.culprits))
    assert "PYTHONFAULTHANDLER" in advise(both).do[0]


def test_only_a_rank_that_nobody_saw_is_looked_for_in_the_launchers_log() -> None:
    unseen = advise(verdict(Cause.NEVER_JOINED, d.NeverSeen(), pid=0))
    late = advise(verdict(Cause.NEVER_JOINED, d.NotJoined(d.Asleep())))
    assert "launcher's log" in unseen.do[0]
    assert not any("launcher's log" in item or "nc -vz" in item for item in late.do)


def test_mismatch_of_which_nobody_knows_whose_it_is_asks_all_ranks() -> None:
    nobody = msgspec.structs.replace(verdict(Cause.COLLECTIVE_MISMATCH), culprits=())
    assert "print what each rank is about to issue" in advise(nobody).do[0]
    assert "rank 2" in advise(verdict(Cause.COLLECTIVE_MISMATCH)).do[0]


def test_no_side_of_an_even_inversion_is_said_to_have_the_other_order() -> None:
    odd = verdict(Cause.ORDER_INVERSION)
    even = msgspec.structs.replace(odd, confidence=Confidence.POSSIBLE)
    assert "rank 2 uses the opposite order" in advise(odd).do[0]
    assert "opposite" not in advise(even).do[0]


def test_dead_end_names_who_never_issued_the_operation() -> None:
    advice = advise(verdict(Cause.UNEVEN_WORK))

    assert any("rank 2 never issued this all_reduce" in item for item in advice.dont)


def test_saving_rank_is_not_to_be_killed_but_a_saved_path_says_nothing() -> None:
    saving = advise(verdict(Cause.BUSY_ELSEWHERE, code="torch.save(state, path)"))
    other = verdict(Cause.BUSY_ELSEWHERE)
    seen = (Evidence("rank 2: stack", "main thread at /checkpoints/train.py:3", Role.ROOT),)
    other = advise(msgspec.structs.replace(other, evidence=seen))

    assert "do not kill rank 2" in saving.dont[0]
    assert not any("kill" in item for item in other.dont)


def test_only_a_watched_job_is_told_that_nobody_waits() -> None:
    one = msgspec.structs.replace(verdict(Cause.BUSY_ELSEWHERE), stuck=None)
    nobody = msgspec.structs.replace(one, culprits=())
    alone = msgspec.structs.replace(one, victims=())

    assert any("guilty" in item for item in advise(nobody).dont)
    assert any("torchrun" in item for item in advise(alone).dont)
    for live in (nobody, alone):
        read = advise(msgspec.structs.replace(live, records=("tcpstore.socket-timeout",)))
        assert not any("guilty" in item or "torchrun" in item for item in read.dont)


def test_all_stopped_ranks_of_a_host_go_on_with_one_command() -> None:
    one = verdict(Cause.PROCESS_STOPPED)
    more = (Culprit(3, "node7", "is stopped", pid=4712), Culprit(9, "node8", "is stopped", pid=5))
    advice = advise(msgspec.structs.replace(one, culprits=(*one.culprits, *more)))

    assert advice.do[0].startswith("on node7: `kill -CONT 4711 4712`")
    assert "do the same on the other hosts" in advice.do[0]


def test_all_lost_hosts_are_excluded_at_once() -> None:
    lost = tuple(Culprit(r, f"node{r // 2}", "is on a silent host") for r in range(4))
    advice = advise(msgspec.structs.replace(verdict(Cause.NODE_FAILURE), culprits=lost))

    assert "`sbatch --exclude=node0,node1`" in advice.do[1]


def test_unknown_pid_leaves_a_placeholder_that_says_whose() -> None:
    assert "<pid of rank 2>" in advise(verdict(Cause.STRAGGLER, pid=0)).do[0]


@pytest.mark.parametrize("cause", Cause)
def test_detail_mode_is_never_recommended(cause: Cause) -> None:
    for activity in (d.Killed("SIGSEGV"), d.WaitsForLock()):
        recommended = [item for item in advise(verdict(cause, activity)).do if "DETAIL" in item]

        assert all(item.startswith("unset ") for item in recommended)


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("blamed", [True, False])
def test_chinese_advice_is_as_complete_and_leaves_no_gap(cause: Cause, blamed: bool) -> None:
    before = verdict(cause)
    if not blamed:
        before = msgspec.structs.replace(before, culprits=(), stuck=None)
    after = advise(before, "zh")

    assert 1 <= len(after.do) <= 3
    assert 1 <= len(after.dont) <= 2
    assert all(item.startswith("不要") and "：" in item for item in after.dont)
    assert not any(item.startswith("不要") for item in after.do)
    assert not any("{" in item or "its host" in item for item in (*after.do, *after.dont))
    assert all(item.count("`") % 2 == 0 for item in (*after.do, *after.dont))


def test_chinese_advice_names_the_rank_and_its_host() -> None:
    advice = advise(verdict(Cause.PROCESS_STOPPED), "zh")

    assert "node7" in advice.do[0]
    assert "kill -CONT 4711" in advice.do[0]
