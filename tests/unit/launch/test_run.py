"""The environment a job gets, and that nothing of a run stays behind."""

import os
from pathlib import Path

import pytest

import unstuck
from unstuck.errors import UserError
from unstuck.launch import leftovers
from unstuck.launch.run import environment, run

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
