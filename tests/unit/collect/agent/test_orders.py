"""An agent does what the hub orders to its own ranks only, and only if it may."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unstuck.collect.agent.orders import STOP_FILE, OrderHandler, write_error_file
from unstuck.model.order import Act, Order, Target


class Rank:
    """A process that plays a rank, as far as the handler needs it."""

    def __init__(self, rank: int, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        self.rank, self.pid, self.alive = rank, self.process.pid, True
        self.error_file = str(folder / f"error-{rank}.json")
        self.store_port = 0


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[list[Rank]]:
    found = [Rank(number, tmp_path) for number in range(3)]
    yield found
    for one in found:
        one.process.kill()
        one.process.wait()


def handler(
    live: Path, sent: list[dict[str, Any]] | None = None, *, may_act: bool = True
) -> OrderHandler:
    def publish(topic: str, line: str) -> None:
        assert topic == "orders"
        assert sent is not None
        sent.append(json.loads(line))

    made = OrderHandler(live, publish)
    made.may_act = may_act
    return made


def obey(made: OrderHandler, order: Order, ranks: Any) -> None:
    work = made.obey(order, ranks)
    if work is not None:
        asyncio.run(work)


def end(*ranks: Rank, **more: Any) -> Order:
    return Order(1, Act.END, tuple(Target(one.rank, one.pid) for one in ranks), **more)


def test_named_ranks_are_ended_and_no_others(tmp_path: Path, ranks: list[Rank]):
    obey(handler(tmp_path), end(ranks[0], ranks[1]), ranks)
    assert [one.process.wait(10) for one in ranks[:2]] == [-9, -9]
    assert ranks[2].process.poll() is None


def test_stopped_rank_is_ended_too(tmp_path: Path, ranks: list[Rank]):
    os.kill(ranks[0].pid, signal.SIGSTOP)
    obey(handler(tmp_path), end(ranks[0]), ranks)
    assert ranks[0].process.wait(10) == -9


def test_pid_must_fit_the_rank_and_be_watched(tmp_path: Path, ranks: list[Rank]):
    wrong = Order(1, Act.END, (Target(0, ranks[1].pid), Target(7, os.getpid())))
    obey(handler(tmp_path), wrong, ranks)
    assert [one.process.poll() for one in ranks] == [None, None, None]


def test_rank_without_a_page_is_ended_by_its_sign(tmp_path: Path, ranks: list[Rank]):
    (tmp_path / f"rank-0.{ranks[0].pid}.born").touch()
    obey(handler(tmp_path), end(*ranks), [])
    assert ranks[0].process.wait(10) == -9
    assert ranks[1].process.poll() is None


def test_verdict_is_in_the_culprits_error_file_as_torchrun_reads_it(
    tmp_path: Path, ranks: list[Rank]
):
    order = end(*ranks, culprits=(1,), summary="Rank 1 is stopped.")
    obey(handler(tmp_path), order, ranks)
    told = json.loads(Path(ranks[1].error_file).read_text())
    assert told["message"]["extraInfo"]["py_callstack"] == "Rank 1 is stopped."
    assert told["message"]["extraInfo"]["timestamp"].isdigit()
    assert not Path(ranks[0].error_file).exists()


def test_what_the_rank_wrote_itself_stays(tmp_path: Path):
    own = tmp_path / "error.json"
    own.write_text("its own words")
    write_error_file(str(own), "ours", 0.0)
    assert own.read_text() == "its own words"


def test_without_the_right_nothing_is_done(
    tmp_path: Path, ranks: list[Rank], capsys: pytest.CaptureFixture[str]
):
    made = handler(tmp_path, may_act=False)
    for order in (
        end(*ranks),
        Order(2, Act.STOP, code=82),
        Order(3, Act.RAISE, end(*ranks).targets),
    ):
        obey(made, order, ranks)
    made.stop(86, "cut off")
    assert [one.process.poll() for one in ranks] == [None, None, None]
    assert not (tmp_path / STOP_FILE).exists()
    assert "started without --recover" in capsys.readouterr().err


def test_first_stop_counts(tmp_path: Path):
    made = handler(tmp_path)
    obey(made, Order(1, Act.STOP, code=82, summary="mismatch", seconds=3.0), [])
    obey(made, Order(2, Act.STOP, code=86, summary="later"), [])
    told = json.loads((tmp_path / STOP_FILE).read_text())
    assert told == {"code": 82, "why": "mismatch", "grace": 3.0}


def test_survivors_hear_an_order_once(tmp_path: Path, ranks: list[Rank]):
    sent: list[dict[str, Any]] = []
    made = handler(tmp_path, sent)
    order = Order(4, Act.HOOK, (Target(0, ranks[0].pid),), summary="s", seconds=20.0)
    obey(made, order, ranks)
    obey(made, order, ranks)
    (line,) = sent
    assert (line["order"], line["pid"], line["seconds"]) == ("hook", ranks[0].pid, 20.0)
