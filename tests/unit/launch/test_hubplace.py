"""Where the hub is: on loopback for one node, shared by the nodes of one job, nobody else's."""

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unstuck.collect.hub.hub import Hub
from unstuck.errors import UserError, WorldError
from unstuck.launch import hubplace
from unstuck.launch.command import LaunchCommand, understand
from unstuck.launch.hubplace import HubPlace, find

ONE = understand(["torchrun", "-m", "train"], {})


def job(node: int = 0, name: str = "job", host: str = "127.0.0.1") -> LaunchCommand:
    line = f"torchrun --nnodes=2 --node-rank={node} --rdzv-id={name} --rdzv-endpoint={host}:29400"
    return understand([*line.split(), "-m", "train"], {})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A free port that stands for the default one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = int(taken.getsockname()[1])
    monkeypatch.setattr(hubplace, "DEFAULT_PORT", number)
    return number


@contextmanager
def served(place: HubPlace) -> Generator[None, None, None]:
    """Run the hub of a place in a thread."""
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        assert place.listener is not None
        serving = asyncio.create_task(Hub(place.token, lambda _: ()).serve(place.listener))
        started.set()
        await asyncio.to_thread(stop.wait)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def close(*places: HubPlace) -> None:
    for place in places:
        if place.listener is not None:
            place.listener.close()


def test_one_node_listens_on_loopback_where_nobody_does():
    one, two = find(ONE, None, {}), find(ONE, None, {})
    assert (one.host, two.host) == ("127.0.0.1", "127.0.0.1")
    assert one.port != two.port
    assert one.token != two.token
    assert one.listener is not None
    assert one.listener.getsockname() == ("127.0.0.1", one.port)
    close(one, two)


def test_token_of_the_user_is_taken():
    place = find(ONE, None, {"UNSTUCK_TOKEN": "secret"})
    assert place.token == "secret"
    close(place)


def test_first_node_runs_the_hub_and_the_second_joins_it(port: int):
    first = find(job(0), None, {})
    assert (first.port, first.listener is not None) == (port, True)
    with served(first):
        second = find(job(1), None, {})
    assert second == HubPlace("127.0.0.1", port, first.token, None, may_act=False)
    close(first)


def test_hub_of_another_job_refuses(port: int):
    first = find(job(), None, {})
    with served(first), pytest.raises(UserError, match="wrong token") as caught:
        find(job(name="another"), None, {})
    assert "UNSTUCK_TOKEN" in caught.value.hint
    close(first)


def test_port_taken_by_something_else_is_named(port: int):
    with socket.create_server(("127.0.0.1", port)) as other:
        hangs_up = threading.Thread(target=_accept_and_close, args=(other,))
        hangs_up.start()
        with pytest.raises(UserError, match=f"port {port} of 127.0.0.1 is taken") as caught:
            find(job(), None, {})
        hangs_up.join()
    assert "--hub 127.0.0.1:PORT" in caught.value.hint


def _accept_and_close(server: socket.socket) -> None:
    server.accept()[0].close()


def test_busy_port_of_a_job_with_one_node():
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(UserError, match=f"port {taken} of 127.0.0.1 is busy"):
            find(ONE, f"127.0.0.1:{taken}", {})


def test_hub_elsewhere_that_is_not_up_yet_is_no_reason_to_wait(port: int):
    # Nobody's address, to which nothing is ever sent.
    place = find(job(host="0.0.0.1"), None, {"UNSTUCK_TOKEN": "t"})
    assert place == HubPlace("0.0.0.1", port, "t", None)


def test_hub_elsewhere_makes_no_sense_for_one_node():
    with pytest.raises(UserError, match="is not an address of this machine"):
        find(ONE, "0.0.0.1:29529", {})


@pytest.mark.parametrize("asked", ["node0:port", "node0:0", "node0:70000", ":29529", "node0:"])
def test_malformed_address(asked: str):
    with pytest.raises(UserError, match="is not HOST or HOST:PORT"):
        find(ONE, asked, {})


def test_unknown_host():
    with pytest.raises(UserError, match=r"host no-such-host\.invalid is not known here"):
        find(ONE, "no-such-host.invalid", {})


def test_several_nodes_without_a_rendezvous_host_must_say_where():
    command = understand(["torchrun", "--nnodes=2", "-m", "train"], {})
    with pytest.raises(UserError, match="needs to know where its hub is"):
        find(command, None, {})


def test_refusal_of_the_system_is_the_worlds():
    error = hubplace._cannot_listen("127.0.0.1", 80, PermissionError(13, "Permission denied"))
    assert isinstance(error, WorldError)
    assert "permission denied" in error.message


def test_hub_may_act_only_with_a_secret(port: int, tmp_path: Path):
    for env, file, may_act in (
        ({}, None, False),
        ({"UNSTUCK_TOKEN": "a secret of the nodes"}, None, True),
        ({}, tmp_path / "token", True),
    ):
        place = find(job(), None, env, file)
        assert place.may_act is may_act
        close(place)
