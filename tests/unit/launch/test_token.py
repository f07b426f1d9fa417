"""The token of a job: a secret where somebody hands it over, and never read from a shared file."""

import os
import threading
from pathlib import Path

import pytest

from unstuck.errors import UserError
from unstuck.launch import token as tokens
from unstuck.launch.command import LaunchCommand, understand
from unstuck.launch.token import Token, find_token

ONE = understand(["torchrun", "-m", "train"], {})
SECRET = "a secret of sixteen characters or more"


def job(node: int = 0, name: str = "job") -> LaunchCommand:
    line = f"torchrun --nnodes=2 --node-rank={node} --rdzv-id={name} --rdzv-endpoint=n0:29400"
    return understand([*line.split(), "-m", "train"], {})


def test_one_node_makes_up_a_secret():
    made = [find_token(ONE, {}) for _ in range(2)]
    assert all(one.is_secret for one in made)
    assert made[0] != made[1]


def test_what_others_can_derive_is_no_secret():
    token = find_token(job(0), {})
    assert token == find_token(job(1), {})
    assert not token.is_secret
    assert token != find_token(job(0, name="another"), {})


def test_derived_token_depends_on_the_rendezvous_of_static_launches():
    static = [
        understand(["torchrun", "--nnodes=2", f"--node-rank={node}", "--master-addr=n0",
                    f"--master-port={port}", "-m", "train"], {})
        for node, port in ((0, 1), (1, 1), (0, 2))
    ]  # fmt: skip
    assert tokens._derived(static[0]) == tokens._derived(static[1])
    assert tokens._derived(static[0]) != tokens._derived(static[2])


def test_environment_hands_over_a_secret():
    assert find_token(job(), {"UNSTUCK_TOKEN": SECRET}) == Token(SECRET, is_secret=True)


def test_nodes_that_come_at_the_same_time_make_one_file_that_only_its_owner_reads(tmp_path: Path):
    path = tmp_path / "token"
    found: list[Token] = []
    nodes = [
        threading.Thread(target=lambda: found.append(find_token(job(), {}, path)))
        for _ in range(16)
    ]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join()
    assert len(found) == 16
    assert len(set(found)) == 1
    assert found[0].is_secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_named_by_the_environment_too_and_goes_before_a_token(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    env = {"UNSTUCK_TOKEN_FILE": str(path), "UNSTUCK_TOKEN": "another"}
    assert find_token(job(), env).text == SECRET
    link = tmp_path / "as-kubernetes-mounts-it"
    link.symlink_to(path)
    assert find_token(job(), {}, link).text == SECRET


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_file_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int):
    path = tmp_path / "token"
    path.write_text(SECRET)
    path.chmod(mode)
    with pytest.raises(UserError, match="may be read or changed by others") as caught:
        find_token(job(), {}, path)
    assert f"chmod 600 {path}" in caught.value.hint


def test_pipe_directory_short_and_unreadable_files_are_refused(tmp_path: Path):
    pipe, short, odd = (tmp_path / name for name in ("pipe", "short", "odd"))
    os.mkfifo(pipe, 0o600)
    for path, content in ((short, b"t\n"), (odd, b"\xff" * 20)):
        path.write_bytes(content)
        path.chmod(0o600)
    for path, text in (
        (pipe, "by others"),
        (short, "shorter than 16"),
        (odd, "cannot be used"),
        (tmp_path, "cannot be used|by others"),
        (tmp_path / "no" / "token", "no such file"),
    ):
        with pytest.raises(UserError, match=text):
            find_token(job(), {}, path)
