"""`unstuck attach`: wrong input gets one line and an exit code, hosts are asked by a command."""

import os
from pathlib import Path

import msgspec
import pytest

from children import Child
from unstuck.model.rank import CodeLine, Phase, Process, ProcessState, RankState
from unstuck.observe.outside import calls
from unstuck.observe.outside.calls import Call
from unstuck.pipelines.outside import Seen
from unstuck.show.cli.main import main


def fail(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["attach", *words])
    said = capsys.readouterr()
    assert not said.out
    return code, said.err


def test_wrong_input_gets_one_line_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = fail("4194305", capsys=capsys)
    assert code == 2
    assert said.startswith("unstuck: there is no process 4194305 here\n")

    code, said = fail("--job", "no-such-job", capsys=capsys)
    assert code == 2
    assert said.startswith("unstuck: no rank of job no-such-job runs on this machine")

    code, said = fail("--patience", "soon", capsys=capsys)
    assert code == 2
    assert "soon is not a duration" in said


def test_of_several_jobs_one_has_to_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    ranks = [Child(tmp_path / port, env={**env, "MASTER_PORT": port}) for port in ("3871", "3872")]
    try:
        for one in ranks:
            one.do("1")
        code, said = fail(capsys=capsys)
        chosen = main(["attach", "--job", "127.0.0.1:3872", "--patience", "1s", "--stacks"])
    finally:
        for one in ranks:
            one.end()

    assert code == 2
    assert "127.0.0.1:3871" in said
    assert "--job ID" in said
    assert chosen == 0
    shown = capsys.readouterr().out
    assert shown.startswith("job 127.0.0.1:3872: 1 rank, looked at for")
    assert "no verdict: nothing shows that anybody has waited" in shown


def test_other_machines_are_asked_by_the_command_that_gets_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank, host in enumerate(("node1", "node2")):
        call = Call("all_reduce") if rank else None
        (tmp_path / host).write_bytes(msgspec.json.encode([_seen(rank, host, call)]))
    reach = tmp_path / "reach"
    reach.write_text(
        f'#!/bin/sh\n[ "$2 $3 $4" = "unstuck attach --evidence" ] && cat {tmp_path}/$1\n'
    )
    reach.chmod(0o755)

    code = main(["attach", "-H", "node1", "-H", "node2", "--via", f"{reach} {{host}}",
                 "--job", "a:1"])  # fmt: skip
    shown = capsys.readouterr().out

    assert code == 1
    assert "job a:1: 2 ranks on 2 machines" in shown
    assert "rank 0" in shown


def test_a_machine_that_cannot_be_reached_is_said_to_be_with_a_command_to_try(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = fail("-H", "node1", "--job", "x", "--via", "false {host}", capsys=capsys)

    assert code == 3
    assert said.startswith("unstuck: node1 could not be looked at")
    assert "false node1 unstuck --version" in said


def _seen(rank: int, host: str, call: Call | None) -> Seen:
    own = CodeLine("/job/train.py", 20, "train", "x = f(x)", user=True)
    c10d = CodeLine("/venv/torch/distributed/distributed_c10d.py", 3, "all_reduce")
    stack = (c10d, own) if call else (own,)
    state = RankState(
        rank, host, Process(7, ProcessState.SLEEPING, waits_in="futex_do_wait"), world_size=2,
        phase=Phase.RUN, stalled_for=900.0, in_flight=call is not None,
        groups=calls.progress(call, (0, 1), 900.0), stack=stack, stack_age=0.0,
    )  # fmt: skip
    return Seen(host, "a:1", (state,), {rank: call}, ())
