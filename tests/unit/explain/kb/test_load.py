"""Records come from us, from directories and from plug-ins; the second start is fast."""

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from unstuck.errors import RecordError, RecordNotFoundError
from unstuck.explain.kb import load as loading
from unstuck.explain.kb import read
from unstuck.explain.kb.load import KnowledgeBase, load

OURS = {"gloo/monitored-barrier", "nccl/watchdog", "pytorch/barrier-timeout"}


@pytest.fixture(autouse=True)
def no_records_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "BUILT_IN", tmp_path / "built-in")


def copy(directory: Path, to: Path) -> Path:
    shutil.copytree(directory, to)
    return to


def test_directory_given_by_hand_is_read(directory: Path) -> None:
    kb = load([directory])

    assert set(kb.records) == OURS
    assert kb.origins["nccl/watchdog"] == str(directory / "nccl" / "watchdog.toml")


def test_directories_of_the_variable_are_read(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("UNSTUCK_KB", f"{tmp_path / 'empty'}{os.pathsep}{directory}")

    assert set(load().records) == OURS


def test_own_record_replaces_the_one_of_the_same_id(directory: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "nccl" / "watchdog.toml"
    mine.parent.mkdir(parents=True)
    text = (directory / "nccl" / "watchdog.toml").read_text()
    mine.write_text(text.replace('category = "timeout"', 'category = "other"'))

    kb = load([directory, tmp_path / "mine"])
    assert kb.records["nccl/watchdog"].category == "other"
    assert kb.origins["nccl/watchdog"] == str(mine)


def test_second_start_reads_the_cache_and_a_change_is_seen(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = copy(directory, tmp_path / "mine")
    first = load([mine])
    with monkeypatch.context() as context:
        context.setattr(read, "read", lambda path: pytest.fail(f"{path} was read again"))
        second = load([mine])
    assert (second.records, second.origins) == (first.records, first.origins)

    changed = mine / "nccl" / "watchdog.toml"
    changed.write_text(changed.read_text().replace('category = "timeout"', 'category = "slow"'))
    assert load([mine]).records["nccl/watchdog"].category == "slow"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"\x93 not a cache",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"nccl/watchdog", b"nccl/watchcat"),
        lambda data: bytes(32) + data[32:],
        lambda data: sha256(b"\x90").digest() + b"\x91\xc0",
        lambda data: sha256(b"\x91\xc0").digest() + b"\x91\xc0",
    ],
    ids=["empty", "other content", "cut", "one word changed", "no checksum", "short", "no records"],
)
def test_damaged_cache_is_rebuilt_silently(
    directory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[bytes], bytes],
) -> None:
    load([directory])
    [cache] = (tmp_path / "cache" / "unstuck").iterdir()
    good = cache.read_bytes()
    cache.write_bytes(damage(good))

    assert set(load([directory]).records) == OURS
    assert cache.read_bytes() == good
    assert capsys.readouterr() == ("", "")


def test_directory_in_place_of_the_cache_costs_only_time(directory: Path, tmp_path: Path) -> None:
    load([directory])
    [cache] = (tmp_path / "cache" / "unstuck").iterdir()
    cache.unlink()
    cache.mkdir()

    assert set(load([directory]).records) == OURS
    assert list(cache.parent.iterdir()) == [cache]


def test_few_caches_are_kept(directory: Path, tmp_path: Path) -> None:
    for number in range(loading.KEPT + 3):
        load([copy(directory, tmp_path / f"copy-{number}")])

    assert len(list((tmp_path / "cache" / "unstuck").iterdir())) == loading.KEPT


def test_place_that_cannot_be_written_costs_only_time(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert set(load([directory]).records) == OURS


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('domain = "nccl"', 'domian = "nccl"', "domian"),
        ('role = "either"', 'role = "cause"', "cause"),
        ('id = "nccl/watchdog"', 'id = "nccl/other"', "its id is nccl/other"),
        ("patterns = ['", "patterns = ['(a+)+", "repeat inside a repeat"),
        ("[title]", "[title", "line 18"),
    ],
)
def test_broken_record_is_named_with_the_reason(
    directory: Path, tmp_path: Path, before: str, after: str, why: str
) -> None:
    mine = copy(directory, tmp_path / "mine") / "nccl" / "watchdog.toml"
    mine.write_text(mine.read_text().replace(before, after))

    with pytest.raises(RecordError, match="cannot be used") as caught:
        load([tmp_path / "mine"])
    assert str(mine) in caught.value.message
    assert why in caught.value.message
    assert "unstuck kb check" in caught.value.hint


def test_refinements_are_found_from_their_parent(kb: KnowledgeBase) -> None:
    assert [r.id for r in kb.refinements("nccl/watchdog")] == ["pytorch/barrier-timeout"]
    assert kb.refinements("gloo/monitored-barrier") == []


def test_end_of_an_id_is_enough(kb: KnowledgeBase) -> None:
    assert kb.get("watchdog") is kb.records["nccl/watchdog"]


def test_unknown_id_suggests_the_nearest(kb: KnowledgeBase) -> None:
    with pytest.raises(RecordNotFoundError) as caught:
        kb.get("gloo/monitored-barier")
    assert "gloo/monitored-barrier" in caught.value.hint
