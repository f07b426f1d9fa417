"""The block looks as agreed, and never harms the terminal it is shown on."""

import io
import os
import re
from pathlib import Path

import msgspec
import pytest

from unstuck.explain.advice.advice import advise
from unstuck.explain.report.terminal import WIDEST, render, render_for
from unstuck.model import doing as d
from unstuck.model.host import OtherProcess
from unstuck.model.verdict import Alternative, Cause, Confidence, Culprit, StuckOperation, Verdict

GOLDEN = Path(__file__).parents[3] / "golden" / "terminal"
BUNDLE = Path("runs/2026-11-15T12-20-03/incident-1")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
SINCE = "2026-11-15T12:29:27+00:00"
MADE = "2026-11-15T12:30:01+00:00"


def all_reduce(size: int, missing: tuple[int, ...], number: int = 1204) -> StuckOperation:
    return StuckOperation(
        op="all_reduce",
        number=number,
        group="0",
        group_size=size,
        description="default_pg",
        sizes=((1024, 1024),),
        dtypes=("Float",),
        waiting=tuple(r for r in range(size) if r not in missing),
        missing=missing,
    )


ONE_OF_FOUR = Verdict(
    cause=Cause.BUSY_ELSEWHERE,
    confidence=Confidence.LIKELY,
    culprits=(
        Culprit(
            rank=2,
            host="node7",
            doing="is asleep",
            activity=d.Asleep(),
            pid=4711,
            file="train.py",
            line=31,
            function="load_batch",
            code="time.sleep(3600)",
            seconds=34.2,
        ),
    ),
    victims=(0, 1, 3),
    since=SINCE,
    alternatives=(
        Alternative(Cause.HOST_DEADLOCK, "a second stack in a minute: does the line move"),
    ),
    because="it lives, its main thread uses no CPU, three ranks wait for it",
    stuck=all_reduce(4, (2,)),
    stalled_seconds=34.2,
    made_at=MADE,
    step=120,
)

THREE_OF_1024 = Verdict(
    cause=Cause.HOST_DEADLOCK,
    confidence=Confidence.CERTAIN,
    culprits=tuple(
        Culprit(
            rank=rank,
            host=f"gpu-{rank // 8:03}",
            doing="waits for its DataLoader workers",
            activity=d.WaitsForWorkers(),
            pid=20000 + rank,
            file="site-packages/torch/utils/data/dataloader.py",
            line=1302,
            function="_try_get_data",
            code="data = self._data_queue.get(timeout=timeout)",
            seconds=61,
        )
        for rank in (17, 511, 900)
    ),
    victims=tuple(r for r in range(1024) if r not in (17, 511, 900)),
    since=SINCE,
    because="the same stacks 20 s apart; none of their workers used any CPU",
    stuck=all_reduce(1024, (17, 511, 900)),
    stalled_seconds=61,
    made_at=MADE,
    attempt=1,
    step=88210,
)

CRASH = Verdict(
    cause=Cause.PROCESS_CRASH,
    confidence=Confidence.CERTAIN,
    culprits=(
        Culprit(
            rank=1,
            host="node7",
            doing="raised ValueError: bad batch in data loader: expected 32 samples, got 31 "
            "(shard 4 of 9, offset 10240)",
            activity=d.Raised("ValueError: bad batch"),
            pid=4710,
            file="data/loader.py",
            line=88,
            function="__getitem__",
            code='raise ValueError(f"bad batch in data loader: {reason}")',
            seconds=2.1,
        ),
    ),
    victims=(0, 2, 3),
    since=SINCE,
    because="its own excepthook saw it 2.1 s before the others lost the connection",
    stuck=all_reduce(4, (1,)),
    stalled_seconds=2.1,
    made_at=MADE,
    step=120,
)

STOPPED = Verdict(
    cause=Cause.PROCESS_STOPPED,
    confidence=Confidence.CERTAIN,
    culprits=(
        Culprit(
            rank=3,
            host="node7",
            doing="is stopped by a signal (state T)",
            activity=d.Stopped(d.Hold.SIGNAL),
            pid=4712,
            seconds=12.4,
        ),
    ),
    victims=(0, 1, 2),
    since=SINCE,
    because="the kernel says so: state T in /proc",
    stuck=all_reduce(4, (3,), number=7),
    stalled_seconds=12.4,
    made_at=MADE,
)

INVERSION = Verdict(
    cause=Cause.ORDER_INVERSION,
    confidence=Confidence.CERTAIN,
    culprits=(
        Culprit(
            rank=5,
            host="node8",
            doing="issued broadcast of tp_1 before all_reduce of dp_0",
            pid=991,
            file="parallel/layers.py",
            line=240,
            function="sync",
            code="dist.broadcast(scale, src=4, group=self.tp)",
            seconds=40,
        ),
    ),
    victims=(0, 1, 2, 3, 4, 6, 7),
    since=SINCE,
    because="the recorder of both ranks shows the opposite order; three ranks have the other one",
    stuck=StuckOperation(
        op="all_reduce",
        number=311,
        group="2",
        group_size=4,
        description="dp_0",
        sizes=((64,), (128,)),
        dtypes=("BFloat16",),
        waiting=(1, 3, 7),
        missing=(5,),
    ),
    chain=(
        "ranks 1,3,7 wait in all_reduce number 311 of dp_0 for rank 5",
        "rank 5 waits in broadcast number 90 of tp_1 for rank 7",
        "rank 7 waits in all_reduce number 311 of dp_0 for rank 5",
    ),
    stalled_seconds=40,
    made_at=MADE,
    step=7,
)

LONG = Verdict(
    cause=Cause.HOST_DEADLOCK,
    confidence=Confidence.POSSIBLE,
    culprits=(
        Culprit(
            rank=0,
            host="ip-10-0-117-201.eu-central-1.compute.internal",
            doing="waits for a lock",
            activity=d.WaitsForLock(),
            pid=1483920,
            file="/mnt/shared/projects/foundation-models/experiments/2026-11/large-scale-"
            "pretraining/src/trainer/data/pipelines/streaming_multimodal_dataset_with_packing.py",
            line=10231,
            function="StreamingMultimodalDataset._acquire_shard_lock_and_refill_the_buffer",
            code="with self._locks[self._shard_of(worker, epoch, position)].acquire(blocking=True, "
            "timeout=self.settings.timeouts.shard_lock) as \u9501: \x1b[31mself.refill()",
            seconds=4000,
        ),
    ),
    victims=(1,),
    since=SINCE,
    alternatives=(
        Alternative(Cause.BUSY_ELSEWHERE, "a second stack in a minute: does the line move"),
        Alternative(Cause.STRAGGLER, "whether the lock is released within the usual step time"),
    ),
    because="the stack was taken once only",
    stuck=all_reduce(2, (0,)),
    stalled_seconds=4000,
    made_at=MADE,
)

TRANSPORT = Verdict(
    cause=Cause.TRANSPORT_STALL,
    confidence=Confidence.LIKELY,
    culprits=(),
    victims=tuple(range(64)),
    since=SINCE,
    summary="all 64 ranks issued all_reduce number 1204 of default_pg and none completed it",
    alternatives=(
        Alternative(Cause.COLLECTIVE_MISMATCH, "the sizes of all 64 ranks; 3 could not be read"),
    ),
    because="every rank waits in the same operation with the same size",
    stuck=all_reduce(64, ()),
    stalled_seconds=45,
    made_at=MADE,
    step=9,
)

STARVED = Verdict(
    cause=Cause.RESOURCE_CONTENTION,
    confidence=Confidence.LIKELY,
    culprits=(
        Culprit(
            rank=2,
            host="node7",
            doing="needs 227 ms of its own per step, the others 126 ms: it waits for a free core "
            "52% of the time, competing with python prepare.py (pid 25135)",
            activity=d.Slow(
                0.227,
                0.126,
                lacks=d.Starved(d.Resource.CORE, 0.52, OtherProcess(25135, "python prepare.py")),
            ),
            pid=4711,
            file="train.py",
            line=24,
            function="augment",
            code="batch = [flip(image) for image in batch]",
        ),
    ),
    victims=(0, 1, 3),
    since=SINCE,
    because="its main thread is runnable and gets no core; over the last 40 steps the others "
    "waited 46% of the time, it 3%; before that, it needed 120 ms",
    alternatives=(
        Alternative(
            Cause.UNEVEN_WORK,
            "compare what rank 2 is given: more or longer samples, another role",
        ),
    ),
    stalled_seconds=12,
    slowdown=1.65,
    made_at=MADE,
    step=120,
)

SITUATIONS = {
    name: advise(verdict)
    for name, verdict in {
        "one-of-four": ONE_OF_FOUR,
        "three-of-1024": THREE_OF_1024,
        "crash": CRASH,
        "stopped": STOPPED,
        "order-inversion": INVERSION,
        "long-names": LONG,
        "transport-stall": TRANSPORT,
        "starved": STARVED,
    }.items()
}


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("look", ["plain-80", "colour-100"])
def test_block_matches_its_golden_rendering(name: str, look: str) -> None:
    kind, width = look.split("-")
    text = render(SITUATIONS[name], width=int(width), colour=kind == "colour", bundle=BUNDLE)
    golden = GOLDEN / f"{name}.{look}.txt"
    if os.environ.get("UNSTUCK_GOLDEN") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")

    assert golden.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("width", [40, 80, 93, 300])
def test_no_line_exceeds_the_width(name: str, width: int) -> None:
    text = render(SITUATIONS[name], width=width, colour=True, bundle=BUNDLE)
    allowed = min(max(width, 80), WIDEST)

    assert max(len(ANSI.sub("", line)) for line in text.splitlines()) <= allowed


def test_typical_stall_fits_in_seventeen_lines() -> None:
    text = render(SITUATIONS["one-of-four"], width=80, colour=False, bundle=BUNDLE)

    assert len(text.strip().splitlines()) <= 17


def test_cause_and_culprit_come_first() -> None:
    first, second, *_ = render(advise(ONE_OF_FOUR), width=80, colour=False).splitlines()

    assert "busy-elsewhere" in first
    assert "rank 2  is asleep" in second


def test_plain_block_is_ascii_even_for_foreign_source_lines() -> None:
    assert render(LONG, width=80, colour=False).isascii()


def test_escape_sequences_of_the_job_do_not_reach_the_terminal() -> None:
    hostile = Culprit(rank=1, host="n\x1b]0;x\x07", doing="raised E: \x1b[2J\x9b1m gone", pid=1)
    verdict = msgspec.structs.replace(ONE_OF_FOUR, culprits=(hostile,))
    text = render(verdict, width=80, colour=True)

    assert not re.search(r"[\x07\x9b]", text)
    assert "\x1b" not in ANSI.sub("", text)
    assert "\x1b[2J" not in text


def test_brackets_in_messages_are_not_markup() -> None:
    odd = Culprit(rank=1, host="n", doing="raised KeyError: '[bold]x[/nope]'", pid=1)
    verdict = msgspec.structs.replace(ONE_OF_FOUR, culprits=(odd,))

    assert "'[bold]x[/nope]'" in render(verdict, width=80, colour=True)


def test_commands_are_not_broken_across_lines() -> None:
    command = "`py-spy dump --locals --pid 1483920`"

    assert command in render(SITUATIONS["long-names"], width=80, colour=False)


def test_many_different_culprits_are_cut_with_a_count() -> None:
    culprits = tuple(Culprit(rank=r, host="n", doing=f"does {r}", pid=r) for r in range(1, 8))
    verdict = msgspec.structs.replace(ONE_OF_FOUR, culprits=culprits)

    assert "and ranks 4-7: see the bundle" in render(verdict, width=80, colour=False)


def test_rank_that_was_never_seen_leaves_no_empty_line() -> None:
    unseen = Culprit(rank=3, host="", doing="was never seen in this job")
    verdict = msgspec.structs.replace(ONE_OF_FOUR, culprits=(unseen,), alternatives=())
    _, second, third, *_ = render(verdict, width=80, colour=False).splitlines()

    assert second == "   rank 3  was never seen in this job"
    assert third.startswith("    waits  ")


def test_verdict_without_culprit_and_summary_still_says_so() -> None:
    verdict = msgspec.structs.replace(ONE_OF_FOUR, culprits=(), summary="")

    assert "no rank to blame was found" in render(verdict, width=80, colour=False)


def test_culprit_that_runs_something_else_is_not_among_those_who_wait() -> None:
    everyone = msgspec.structs.replace(all_reduce(4, ()), waiting=(0, 1, 2, 3))
    verdict = msgspec.structs.replace(
        ONE_OF_FOUR, cause=Cause.COLLECTIVE_MISMATCH, victims=(0, 1, 3), stuck=everyone
    )
    assert "waits  ranks 0,1,3 in all_reduce" in render(verdict, width=80, colour=False)


def test_rank_that_waits_elsewhere_or_ended_by_it_is_called_affected() -> None:
    verdict = msgspec.structs.replace(ONE_OF_FOUR, stuck=all_reduce(4, (1, 2)))
    assert "also affected: rank 1\n" in render(verdict, width=80, colour=False)


def test_group_without_a_description_goes_by_its_number() -> None:
    unnamed = msgspec.structs.replace(all_reduce(4, (2,)), group="3", description="undefined")
    verdict = msgspec.structs.replace(ONE_OF_FOUR, stuck=unnamed)
    assert "number 1204 of group 3 (4 ranks)" in render(verdict, width=80, colour=False)


class Terminal(io.TextIOWrapper):
    """A stream that claims to be a terminal of the default size."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return -1


def ninety_columns(_fd: int) -> os.terminal_size:
    return os.terminal_size((90, 24))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(os, "get_terminal_size", ninety_columns)
    return Terminal(io.BytesIO(), encoding="utf-8")


def test_terminal_gets_colour_and_its_own_width(terminal: Terminal) -> None:
    text = render_for(terminal, ONE_OF_FOUR, environ={})

    assert text == render(ONE_OF_FOUR, width=90, colour=True)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_keeps_line_drawing_but_no_colour(
    terminal: Terminal, environ: dict[str, str]
) -> None:
    text = render_for(terminal, ONE_OF_FOUR, environ=environ)

    assert "\x1b" not in text
    assert "\u2501" in text


def test_terminal_without_utf8_gets_ascii_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", ninety_columns)
    text = render_for(Terminal(io.BytesIO(), encoding="latin-1"), ONE_OF_FOUR, environ={})

    assert "\x1b[" in text
    assert ANSI.sub("", text).isascii()


def test_pipe_gets_plain_ascii() -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    text = render_for(pipe, ONE_OF_FOUR, environ={})

    assert "\x1b" not in text
    assert text.isascii()
