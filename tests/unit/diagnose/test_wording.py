"""Everything a culprit may do has a phrase in both languages, and nothing is left unfilled."""

from enum import StrEnum
from typing import get_args

import pytest

from unstuck.diagnose.wording import _PHRASES, MOST_PROCESSES, phrase, time_text
from unstuck.model import doing as d
from unstuck.model.host import OtherProcess
from unstuck.model.neighbour import Neighbour

RSYNC = Neighbour(77, "rsync")
KINDS: tuple[type[d.Doing], ...] = get_args(d.Activity)


def _variants(kind: type[d.Doing]) -> list[StrEnum]:
    how = kind.__annotations__.get("how")
    return list(how) if how is not None else []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_every_variant_has_its_phrase(kind: type[d.Doing]) -> None:
    for key in _variants(kind) or [kind]:
        english, chinese = _PHRASES[key]
        assert english
        assert any("\u4e00" <= sign <= "\u9fff" for sign in chinese), chinese


def test_no_two_variants_share_a_phrase_by_accident() -> None:
    assert len(_PHRASES) == sum(len(_variants(kind)) or 1 for kind in KINDS)


@pytest.mark.parametrize(
    ("doing", "english", "chinese"),
    [
        (d.Asleep(), "is asleep", "在休眠"),
        (
            d.Computing(section="load", overdue=0.5),
            "is running its own code in section load, 500 ms past its deadline",
            "在运行自己的代码（load 段内），已超出时限 500 ms",
        ),
        (d.WaitsForFileLock(), "waits for the lock on a file", "在等文件锁"),
        (
            d.WaitsForFileLock("/data/index", (RSYNC, Neighbour(78))),
            "waits for the lock on /data/index, held by process 77 (rsync), 78",
            "在等文件锁（/data/index），持有者是进程 77 (rsync), 78",
        ),
        (
            d.Starved(d.Resource.CORE, 0.5, OtherProcess(7, "make")),
            "waits for a free core 50% of the time, competing with make (pid 7)",
            "50% 的时间在等空闲的核，与 make (pid 7) 争抢",
        ),
        (
            d.NotJoined(d.LeftLoop("train.py:9", d.Asleep())),
            "has not called init_process_group: it has left the loop at train.py:9 and is asleep",
            "还没有调用 init_process_group：已离开 train.py:9 处的循环，在休眠",
        ),
        (
            d.Unanswered("recv", 1, -1),
            "waits in recv #1 with any rank (tag 0), which has no counterpart",
            "停在 recv 第 1 号（对端 任意 rank，tag 0），没有与之配对的操作",
        ),
        (d.IssuedLast(), "has issued no collective", "发起的最后一个操作：无"),
        (
            d.IssuedLast("all_reduce", 41, "0"),
            "has issued all_reduce #41 of group 0 and nothing after it",
            "发起的最后一个操作：all_reduce（第 41 号，组 0）",
        ),
        (d.Exited(0), "ended with exit code 0", "以退出码 0 结束"),
        (
            d.Absent(gave_up=True),
            "did not arrive before the others gave up",
            "在其他 rank 放弃等待之前没有到达",
        ),
        (
            d.Slow(0.29, 1.5, lacks=d.Starved(d.Resource.QUOTA, 0.6)),
            "needs 290 ms of its own per step, the others 1.5 s: it is throttled by the CPU "
            "limit of its cgroup 60% of the time",
            "每个 step 自身耗时 290 ms，其他 rank 1.5 s：60% 的时间被 cgroup 的 CPU 限额限流",
        ),
    ],
)
def test_phrases(doing: d.Doing, english: str, chinese: str) -> None:
    assert (phrase(doing), phrase(doing, "zh")) == (english, chinese)


def test_what_a_program_wrote_is_quoted_as_it_is() -> None:
    assert phrase(d.Raised("KeyError: '{x}' [0] {}")) == "raised KeyError: '{x}' [0] {}"


def test_of_many_processes_only_some_are_named() -> None:
    many = tuple(Neighbour(pid) for pid in range(10, 10 + MOST_PROCESSES + 2))
    text = phrase(d.WaitsForProcess(many, d.Child.EXIT))
    assert text == "waits for its child process 10, 11, 12, 13, 2 more to exit"


def test_short_times_are_milliseconds() -> None:
    assert (time_text(0.29), time_text(1.5), time_text(34.2)) == ("290 ms", "1.5 s", "34 s")
