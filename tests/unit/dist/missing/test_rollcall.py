"""Ranks answer each other by datagrams, whatever their store does."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from unstuck.dist.missing.rollcall import RollCall

Pair = tuple[RollCall, RollCall]


class Store:
    """A store in memory that all ranks of a test share."""

    host, port = "127.0.0.1", 9

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def clone(self) -> "Store":
        return self

    def set(self, key: str, value: str) -> None:
        self.kept[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.kept for key in keys)

    def get(self, key: str) -> bytes:
        return self.kept[key]


@pytest.fixture
def given_up() -> list[str]:
    return []


@pytest.fixture
def heard() -> threading.Event:
    return threading.Event()


@pytest.fixture
def pair(given_up: list[str], heard: threading.Event) -> Iterator[Pair]:
    store = Store()

    def on_given_up(name: str) -> None:
        given_up.append(name)
        heard.set()

    def joined(rank: int) -> RollCall:
        pg: Any = SimpleNamespace(rank=lambda: rank, size=lambda: 2, group_name="no sockets known")
        return RollCall(pg, store, on_given_up)

    ranks = joined(0), joined(1)
    yield ranks
    for rank in ranks:
        rank.close()


def record(pair: Pair) -> dict[str, Any]:
    pair[0].prepare([1])
    pair[0].await_addresses([1], 10)
    found = pair[0].record(1)
    assert found is not None
    return found


def test_a_rank_says_where_it_is(pair: Pair) -> None:
    assert record(pair)["host"] == socket.gethostname()
    found = pair[0].ask("0", [1], 10, lambda _: False)
    assert set(found) == {1}
    assert found[1]["rank"] == 1
    assert found[1]["line"] > 0


def test_a_rank_without_an_address_is_not_asked(pair: Pair) -> None:
    assert pair[0].record(7) is None
    assert pair[0].ask("0", [7], 10, lambda _: False) == {}


def test_a_hopeless_rank_is_not_waited_for(pair: Pair) -> None:
    record(pair)
    assert pair[0].ask("0", [1], 60, lambda _: True) == {}


def test_others_are_notified_when_a_group_is_given_up(
    pair: Pair, given_up: list[str], heard: threading.Event
) -> None:
    record(pair)
    pair[0].tell_given_up("5", [1], 10)
    assert heard.wait(10)
    assert given_up == ["5"]


def test_who_does_not_know_the_token_gets_no_answer(
    pair: Pair, given_up: list[str], heard: threading.Event
) -> None:
    known = record(pair)
    wrong = {"token": "guess", "group": "5", "nonce": "", "given_up": True}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for message in (json.dumps(wrong).encode(), b"no json", b""):
            stranger.sendto(message, (known["address"], known["port"]))
    # Datagrams arrive in order here: once this one has been answered, the others were read.
    assert pair[0].ask("0", [1], 10, lambda _: False)
    assert given_up == []


def test_closing_ends_the_threads(pair: Pair) -> None:
    record(pair)
    pair[1].close()
    assert not pair[1]._thread.is_alive()
    with contextlib.suppress(OSError):
        assert pair[0].ask("0", [1], 0.05, lambda _: False) == {}
