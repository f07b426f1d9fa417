"""What logs say fits a terminal, names lines that can be opened, and cannot drive the terminal."""

import pytest

from unstuck.explain.explanation import Explanation, Note
from unstuck.explain.report.log_verdict import MOST_CAUSES, MOST_UNKNOWN, render
from unstuck.model.logs import LogLine, LogMatch
from unstuck.model.verdict import (
    Alternative,
    Cause,
    Confidence,
    Culprit,
    Evidence,
    Role,
    StuckOperation,
    Verdict,
)
from unstuck.observe.logs.find.templates import Cluster

VERDICT = Verdict(
    cause=Cause.BUSY_ELSEWHERE,
    confidence=Confidence.LIKELY,
    culprits=(
        Culprit(rank=0, host="a", doing="was saving", file="train.py", line=7, function="save"),
    ),
    victims=(1, 2),
    since="",
    summary="rank 0: a collective timed out",
    because="these lines show: a checkpoint was being saved",
    evidence=(
        Evidence("log", "Watchdog caught", file="logs/1.log", line=12, role=Role("root")),
        Evidence("log", "Watchdog caught", file="logs/2.log", line=9, role=Role("root")),
    ),
    stuck=StuckOperation(op="ALLREDUCE", group="0", group_size=3, number=905, waiting=(1, 2)),
    records=("nccl/watchdog",),
    do=("save less often",),
)


def cluster(number: int, text: str = "ERROR cold", count: int = 1) -> Cluster:
    return Cluster(text, LogLine("a.log", number, text, rank=3, time=0.0), count=count)


def shown(found: Explanation, *, lang: str = "en", everything: bool = False) -> str:
    return render(found, lang=lang, everything=everything, colour=False)


def test_verdict_comes_with_who_waits_the_lines_and_the_record():
    text = shown(Explanation(VERDICT, links=("https://example.org/1",)))

    assert "   rank 0  was saving\n           train.py:7 in save  (a)\n" in text
    assert "     what  a collective timed out\n" in text
    assert "    waits  ranks 1,2 in ALLREDUCE number 905\n" in text
    assert "    lines  logs/1.log:12  (root)\n           | Watchdog caught\n" in text
    assert "   record  nccl/watchdog  (unstuck kb show nccl/watchdog)\n" in text
    assert "    links  https://example.org/1\n" in text


def test_one_line_of_a_kind_is_enough_unless_all_are_asked_for():
    assert "logs/2.log:9" not in shown(Explanation(VERDICT))
    assert "logs/2.log:9" in shown(Explanation(VERDICT), everything=True)


def test_nothing_found_says_how_much_was_read():
    assert shown(Explanation(None, files=2, lines=1500)) == (
        "no distributed failure was found in 1,500 lines of 2 files\n"
    )
    assert "in 1 line of 1 file\n" in shown(Explanation(None, files=1, lines=1))
    assert shown(Explanation(None, files=1, lines=3), lang="zh") == (
        "在 1 个文件的 3 行中没有发现分布式故障\n"
    )


def test_many_causes_are_named_and_explained_only_on_demand():
    others = [Cause.STRAGGLER, Cause.UNEVEN_WORK, Cause.PROCESS_CRASH, Cause.OUT_OF_MEMORY]
    alternatives = tuple(Alternative(cause, f"decided by {cause}") for cause in others)
    verdict = Verdict(Cause.UNKNOWN, Confidence.POSSIBLE, (), (), "x", alternatives=alternatives)
    short, whole = (shown(Explanation(verdict), everything=all_) for all_ in (False, True))

    assert short.count("decided by") == MOST_CAUSES
    assert "other causes of this message: out-of-memory; --all" in short
    assert whole.count("decided by") == len(others)


def test_unknown_failures_are_counted_and_the_rest_is_mentioned():
    clusters = tuple(cluster(n, f"ERROR {n}", count=n) for n in range(1, MOST_UNKNOWN + 3))
    text = shown(Explanation(None, unknown=clusters))

    assert "a.log:1  (once on rank 3 at 1970-01-01" in text
    assert "a.log:2  (2 times, first on rank 3 at 1970-01-01" in text
    assert "and 2 more kinds: --all shows them" in text
    assert "more kinds" not in shown(Explanation(None, unknown=clusters), everything=True)


def test_error_of_the_program_and_setting_without_effect_stand_beside():
    own = LogMatch("cuda/out-of-memory", "root", LogLine("a.log", 4, "CUDA out of memory"), {})
    note = Note("nccl/timeout-variable", "a.log", 1, "export NCCL_TIMEOUT=7200", "set timeout=")
    text = shown(Explanation(None, own=(own,), settings=(note,), notes=("b.log is damaged",)))

    assert "    error  raised by the program itself" in text
    assert "a.log:4  (cuda/out-of-memory)" in text
    assert "  setting  a.log:1: export NCCL_TIMEOUT=7200 has no effect here" in text
    assert "     note  b.log is damaged" in text


def test_chinese_has_chinese_labels():
    text = shown(Explanation(VERDICT), lang="zh")

    assert all(label in text for label in ("等待", "依据", "先做", "很可能", "条目"))
    assert "waits" not in text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_in_a_log_drives_the_terminal(lang: str):
    evil = "\x1b[2J\x1b]0;owned\x07\nfake line"
    line = LogLine(f"{evil}.log", 1, evil)
    found = Explanation(
        Verdict(
            Cause.UNKNOWN,
            Confidence.POSSIBLE,
            (Culprit(rank=1, host="a", doing=evil),),
            (),
            "",
            summary=evil,
            because=evil,
            evidence=(Evidence("log", evil, file=f"{evil}.log", line=2, role=Role("root")),),
            stuck=StuckOperation(op=evil, group="0", group_size=3, number=1, waiting=(0,)),
        ),
        unknown=(Cluster("x", line),),
        settings=(Note("a/b", f"{evil}.log", 3, evil, evil),),
        notes=(evil,),
        links=(f"https://{evil}",),
    )
    text = shown(found, lang=lang, everything=True)

    assert not {"\x1b", "\x07"} & set(text)
    assert not [row for row in text.splitlines() if row.startswith("fake line")]


def test_long_line_is_cut_and_backticks_do_not_glue_it():
    text = shown(Explanation(None, unknown=(cluster(1, "ERROR `" + "x " * 5000),)))

    assert len(text) < 1500
    assert "`" not in text
    assert max(map(len, text.splitlines())) <= 80
