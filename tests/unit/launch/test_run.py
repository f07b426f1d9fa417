"""The environment a job gets, and that nothing of a run stays behind."""

import asyncio
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

import unstuck
from hubs import connect
from unstuck.act.defaults import policy
from unstuck.collect import wire
from unstuck.errors import UserError
from unstuck.launch import leftovers
from unstuck.launch.command import understand
from unstuck.launch.run import environment, run
from unstuck.launch.token import find_token

SITE = str(Path(unstuck.__file__).parent / "observe" / "probe" / "site")


def test_probe_comes_first_and_the_users_path_stays(tmp_path: Path):
    assert environment({}, tmp_path)["PYTHONPATH"] == SITE
    both = environment({"PYTHONPATH": "/a:/b"}, tmp_path)["PYTHONPATH"]
    assert both == f"{SITE}{os.pathsep}/a:/b"


def test_job_knows_where_to_write_but_not_the_token(tmp_path: Path):
    env = environment({"UNSTUCK_TOKEN": "secret", "HOME": "/h"}, tmp_path)

    assert "secret" not in env.values()
    assert (env["HOME"], env["UNSTUCK_LIVE_DIR"]) == ("/h", str(tmp_path))
    assert Path(env["UNSTUCK_PACKAGE"], "__init__.py").exists()


def test_every_run_has_its_own_mark(tmp_path: Path):
    assert len({environment({}, tmp_path)[leftovers.MARK] for _ in range(10)}) == 10


@pytest.mark.parametrize(("before", "after"), [({}, "1"), ({"VALUE": "0"}, "0")])
def test_restarts_work_unless_the_user_said_otherwise(
    tmp_path: Path, before: dict[str, str], after: str
):
    name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    base = {name: before["VALUE"]} if before else {}
    assert environment(base, tmp_path)[name] == after


def test_refused_run_leaves_no_live_directory(tmp_path: Path):
    with pytest.raises(UserError, match="there is no command no-such-launcher"):
        run(["no-such-launcher"], run_dir=tmp_path / "run", name=None, hub=None)
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.processes
@pytest.mark.parametrize("secret", [False, True])
def test_job_of_several_nodes_is_acted_on_only_with_a_secret(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    secret: bool,
):
    """Somebody else on the machine reads the command line, derives the token, and sends a ctl."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    answers: list[dict[str, Any]] = []

    async def attack(token: str) -> None:
        peer = None
        while peer is None:
            try:
                peer = await connect(port, "stranger/1", token=token)
            except PermissionError as error:
                answers.append({"error": str(error)})
                return
            except (OSError, TimeoutError):
                await asyncio.sleep(0.05)
        peer.say(wire.Question(1, '{"ctl": {"do": "pause"}}'))
        answer = await peer.receive()
        assert isinstance(answer, wire.Answer)
        answers.append(json.loads(answer.text))
        peer.say(wire.Bye())
        await peer.close()

    derived = find_token(understand(["sleep", "8"], os.environ), {})
    stranger = threading.Thread(target=lambda: asyncio.run(attack(derived.text)))
    stranger.start()
    file = tmp_path / "token" if secret else None
    chosen = policy(recover=True, on=(), file=None)
    run(["sleep", "8"], run_dir=tmp_path / "run", hub=f"127.0.0.1:{port}", policy=chosen,
        token_file=file)  # fmt: skip
    stranger.join()
    said = capfd.readouterr().err
    assert ("watching only: to act on this job its nodes need a secret" in said) is not secret
    (answer,) = answers
    assert ("wrong token" if secret else "this job takes no ctl") in answer["error"]
