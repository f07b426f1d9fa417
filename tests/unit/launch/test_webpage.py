"""The job's page: an address from the start, a process once somebody looks."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from children import until
from unstuck.errors import UserError
from unstuck.launch.webpage import WebPage, open_page


@pytest.fixture
def page() -> Iterator[WebPage]:
    found = open_page(None)
    assert found is not None
    yield found
    found.end()


def knock(page: WebPage) -> list[int]:
    """Ask for the page as a browser would, and note the status of the answer."""
    seen: list[int] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(page.link.partition("?")[0], timeout=60) as answer:
                seen.append(answer.status)
        except urllib.error.HTTPError as error:
            seen.append(error.code)

    Thread(target=ask, daemon=True).start()
    return seen


def test_nothing_runs_until_somebody_looks(page: WebPage, tmp_path: Path):
    page.attend(tmp_path, "127.0.0.1:1", "hub token")
    assert page.pid is None

    seen = knock(page)
    until(lambda: page.attend(tmp_path, "127.0.0.1:1", "hub token") or page.pid is not None)
    until(lambda: seen == [401])

    line = Path(f"/proc/{page.pid}/cmdline").read_text()
    assert page.token not in line
    assert "hub token" not in line


def test_every_run_has_a_link_of_its_own(page: WebPage):
    other = open_page(None)

    assert other is not None
    assert other.link != page.link
    assert other.link.startswith("http://127.0.0.1:")
    other.end()


@pytest.mark.parametrize("asked", ["8080", "localhost", "a:b", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_an_error(asked: str):
    with pytest.raises(UserError, match="is not HOST:PORT"):
        open_page(asked)


def test_an_address_that_is_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match="is taken"):
            open_page(address)


def test_without_the_packages_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("unstuck.launch.webpage._NEEDS", ("no_such_package",))

    assert open_page("127.0.0.1:0") is None
    assert capsys.readouterr().err == (
        "unstuck: to watch jobs in a browser: pip install 'unstuck[web]'\n"
    )
