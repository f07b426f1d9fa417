"""Every cause has advice that can be followed as it stands."""

import msgspec
import pytest

from unstuck.explain.advice import PLAYBOOK, advise
from unstuck.model.verdict import (
    Cause,
    Confidence,
    Culprit,
    Evidence,
    StuckOperation,
    Verdict,
)


def verdict(cause: Cause, doing: str = "is somewhere", **culprit: object) -> Verdict:
    known: dict[str, object] = {"rank": 2, "host": "node7", "pid": 4711, "doing": doing}
    return Verdict(
        cause=cause,
        confidence=Confidence.CERTAIN,
        culprits=(msgspec.convert({**known, **culprit}, Culprit),),
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


def test_playbook_covers_the_whole_vocabulary() -> None:
    assert set(PLAYBOOK) == set(Cause)


@pytest.mark.parametrize(
    ("cause", "doing", "words"),
    [
        (Cause.PROCESS_STOPPED, "is stopped (state T)", "on node7: `kill -CONT 4711`"),
        (Cause.PROCESS_STOPPED, "is held by a debugger", "TracerPid"),
        (Cause.NEVER_JOINED, "has not called init_process_group: it is asleep", "py-spy dump"),
        (Cause.NEVER_JOINED, "ended successfully without joining the process group", "way out"),
        (Cause.PROCESS_STOPPED, "is held by the freezer of its group", "docker unpause"),
        (Cause.STRAGGLER, "takes 290 ms a step for itself", "py-spy record -d 20"),
        (Cause.RESOURCE_CONTENTION, "waits for a free core 50% of the time", "top -b -n 1"),
        (Cause.RESOURCE_CONTENTION, "lacks a core, beside make all (pid 77)", "cmd -p 77"),
        (Cause.RESOURCE_CONTENTION, "is held back by the cpu limit of its cgroup", "/4711/cgroup"),
        (Cause.RESOURCE_CONTENTION, "waits for memory: its host reclaims it", "free -h"),
        (Cause.RESOURCE_CONTENTION, "waits for a busy disk", "iostat -x"),
        (Cause.RESOURCE_CONTENTION, "loses its cores to other virtual machines", "vmstat"),
        (Cause.HOST_DEADLOCK, "holds the GIL in a C call", "py-spy dump --native --pid 4711"),
        (Cause.HOST_DEADLOCK, "waits for its DataLoader workers", "ps --ppid 4711"),
        (Cause.HOST_DEADLOCK, "waits for the disk (uninterruptible)", "/proc/4711/stack"),
        (Cause.HOST_DEADLOCK, "waits for data from a pipe", "/proc/4711/fd"),
        (Cause.HOST_DEADLOCK, "waits for a lock", "py-spy dump --locals --pid 4711"),
        (Cause.HOST_DEADLOCK, "waits for the lock of a file", "`lslocks`"),
        (
            Cause.HOST_DEADLOCK,
            "waits for the lock of file /data/index, held by process 77 (rsync)",
            "etime,cmd -p 77`",
        ),
        (
            Cause.HOST_DEADLOCK,
            "waits until the pipe that it writes to is read by process 77 (sleep)",
            "etime,cmd -p 77`",
        ),
        (Cause.HOST_DEADLOCK, "waits until a pipe is read", "/proc/4711/fd"),
        (
            Cause.HOST_DEADLOCK,
            "waits for its child process 77 (python a.py, 5), 78, which is stopped",
            "`kill -CONT 77 78`",
        ),
        (
            Cause.HOST_DEADLOCK,
            "waits for its child process 77 (python), which waits for a lock itself",
            "py-spy dump --pid 77`",
        ),
        (
            Cause.COLLECTIVE_MISMATCH,
            "is in a collective and has not called new_group",
            "call new_group on every rank",
        ),
        (Cause.COLLECTIVE_MISMATCH, "is in new_group", "call new_group on every rank"),
        (
            Cause.COLLECTIVE_MISMATCH,
            "waits in send #1 to rank 3 (tag 0), which nobody answers",
            "each send needs one recv",
        ),
        (Cause.COLLECTIVE_MISMATCH, "runs broadcast as #31 of group 0", "same operation, shape"),
        (Cause.PROCESS_CRASH, "failed with ValueError: worker got signal 9", "fix what rank 2"),
        (Cause.PROCESS_CRASH, "was killed by SIGKILL", "dmesg"),
        (Cause.PROCESS_CRASH, "is gone without a word", "dmesg"),
        (Cause.PROCESS_CRASH, "was killed by SIGSEGV", "PYTHONFAULTHANDLER=1"),
        (Cause.PROCESS_CRASH, "was killed by SIGSEGV in this line", "the library that is called"),
        (Cause.PROCESS_CRASH, "was killed by SIGBUS", "df -h /dev/shm"),
        (Cause.PROCESS_CRASH, "failed with RuntimeError: Bus error", "df -h /dev/shm"),
        (Cause.PROCESS_CRASH, "was killed by SIGABRT", "line above the abort"),
        (
            Cause.PROCESS_CRASH,
            "had finished its work and died by SIGABRT while leaving the interpreter",
            "destroy_process_group()",
        ),
        (
            Cause.PROCESS_CRASH,
            "had finished its work and destroyed its groups, and died by SIGABRT while leaving",
            "os._exit(0)",
        ),
        (Cause.PROCESS_CRASH, "was killed by SIGTERM", "scontrol show job"),
        (Cause.PROCESS_CRASH, "was killed by SIGHUP", "tmux"),
        (Cause.PROCESS_CRASH, "ended with exit code 3", "last lines of rank 2's own stderr"),
        (Cause.OUT_OF_MEMORY, "was killed by SIGKILL", "killed process"),
        (Cause.OUT_OF_MEMORY, "failed with MemoryError", "free -h"),
        (Cause.OUT_OF_MEMORY, "failed with OutOfMemoryError: CUDA out of memory", "device"),
    ],
)
def test_first_thing_to_do_follows_what_the_culprit_does(
    cause: Cause, doing: str, words: str
) -> None:
    assert words in advise(verdict(cause, doing)).do[0]


def test_only_a_rank_that_nobody_saw_is_looked_for_in_the_launchers_log() -> None:
    unseen = advise(verdict(Cause.NEVER_JOINED, "was never seen", pid=0))
    late = advise(verdict(Cause.NEVER_JOINED, "has not called init_process_group: it is asleep"))
    assert "launcher's log" in unseen.do[0]
    assert not any("launcher's log" in item or "nc -vz" in item for item in late.do)


def test_mismatch_of_which_nobody_knows_whose_it_is_asks_all_ranks() -> None:
    nobody = msgspec.structs.replace(verdict(Cause.COLLECTIVE_MISMATCH), culprits=())
    assert "print what each rank is about to issue" in advise(nobody).do[0]
    assert "rank 2" in advise(verdict(Cause.COLLECTIVE_MISMATCH)).do[0]


def test_no_side_of_an_even_inversion_is_said_to_have_the_other_order() -> None:
    odd = verdict(Cause.ORDER_INVERSION)
    even = msgspec.structs.replace(odd, confidence=Confidence.POSSIBLE)
    assert "rank 2 has the other one" in advise(odd).do[0]
    assert "the other one" not in advise(even).do[0]


def test_dead_end_names_who_never_issued_the_operation() -> None:
    advice = advise(verdict(Cause.UNEVEN_WORK))

    assert any("rank 2 never issued this all_reduce" in item for item in advice.dont)


def test_saving_rank_is_not_to_be_killed_but_a_saved_path_says_nothing() -> None:
    saving = advise(verdict(Cause.BUSY_ELSEWHERE, code="torch.save(state, path)"))
    other = verdict(Cause.BUSY_ELSEWHERE)
    seen = (Evidence("rank 2: stack", "main thread at /checkpoints/train.py:3", "root"),)
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
    assert "the same on the other hosts" in advice.do[0]


def test_all_lost_hosts_are_excluded_at_once() -> None:
    lost = tuple(Culprit(r, f"node{r // 2}", "is on a silent host") for r in range(4))
    advice = advise(msgspec.structs.replace(verdict(Cause.NODE_FAILURE), culprits=lost))

    assert "`sbatch --exclude=node0,node1`" in advice.do[1]


def test_unknown_pid_leaves_a_placeholder_that_says_whose() -> None:
    assert "<pid of rank 2>" in advise(verdict(Cause.STRAGGLER, pid=0)).do[0]


@pytest.mark.parametrize("cause", Cause)
def test_detail_mode_is_never_recommended(cause: Cause) -> None:
    for doing in ("was killed by SIGSEGV", "waits for a lock"):
        recommended = [item for item in advise(verdict(cause, doing)).do if "DETAIL" in item]

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
