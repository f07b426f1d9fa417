"""`/metrics` over HTTP: only there, with the token where there is one, by a name of this host."""

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scenes import job
from served_runs import ServedRun
from unstuck.show import exporter

Serve = Callable[..., ServedRun]


@contextmanager
def serving(token: str = "") -> Generator[str]:
    with exporter.Exporter(("127.0.0.1", 0), token) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_all_runs_are_shown_those_that_ended_for_a_while(serve: Serve, tmp_path: Path):
    serve("7").end()
    serve("8", job(4).snapshot())
    with serving() as address:
        code, text = get(f"{address}/metrics")
    assert code == 200
    assert 'unstuck_job_state{run="7",state="ended"} 1' in text
    assert 'unstuck_job_state{run="8",state="running"} 1' in text
    later = (tmp_path / "runs" / "7").stat().st_mtime + exporter.KEPT + 1
    assert 'run="7"' not in exporter.collect(now=later)
    assert 'run="8"' not in exporter.collect([Path("7")])


def test_who_may_not_read_is_refused(serve: Serve):
    with serving("a secret") as address:
        assert get(f"{address}/metrics")[0] == 401
        assert get(f"{address}/metrics", Authorization="Bearer no")[0] == 401
        assert get(f"{address}/metrics", Authorization="Bearer a secret")[0] == 200
        assert get(f"{address}/", Authorization="Bearer a secret")[0] == 404
        assert get(f"{address}/metrics", Host="evil.example", Authorization="Bearer a secret") == (
            403,
            "ask by the address this server listens on\n",
        )


@pytest.mark.parametrize("host", ["localhost", "[::1]", "127.0.0.1:9"])
def test_the_names_of_this_host_are_ours(serve: Serve, host: str):
    with serving() as address:
        assert get(f"{address}/metrics", Host=host)[0] == 200
