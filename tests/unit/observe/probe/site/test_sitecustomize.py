"""Our sitecustomize: it waits for torch, lets the user's own run, and never stops a script."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import unstuck
from children import rank_env

USERS = "import os\nos.environ['USERS_OWN'] = 'ran'\n"
IMPORT = "import torch.distributed.distributed_c10d as d"
SITE = Path(unstuck.__file__).parent / "observe" / "probe" / "site"


def python(
    code: str, env: dict[str, str], executable: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )


def prepend(env: dict[str, str], *folders: Path) -> dict[str, str]:
    """Put folders on PYTHONPATH right after ours."""
    ours, _, rest = env["PYTHONPATH"].partition(os.pathsep)
    parts = [ours, *map(str, folders), rest]
    return env | {"PYTHONPATH": os.pathsep.join(part for part in parts if part)}


@pytest.fixture
def empty_torch(tmp_path: Path) -> Path:
    """A torch in which the probe cannot start."""
    home = tmp_path / "empty"
    (home / "torch" / "distributed").mkdir(parents=True)
    for name in ("__init__.py", "distributed/__init__.py"):
        (home / "torch" / name).touch()
    (home / "torch" / "distributed" / "distributed_c10d.py").write_text("WORLD = 7\n")
    return home


@pytest.mark.parametrize("watched", [True, False])
def test_users_own_runs(tmp_path: Path, watched: bool):
    (tmp_path / "sitecustomize.py").write_text(USERS)
    env = prepend(rank_env(tmp_path), tmp_path)
    if not watched:
        del env["UNSTUCK_LIVE_DIR"]
    done = python(
        "import os, sitecustomize; print(os.environ['USERS_OWN'], sitecustomize.__file__)", env
    )

    assert done.stdout == f"ran {tmp_path / 'sitecustomize.py'}\n"
    assert done.stderr == ""


def test_users_own_may_fail_as_it_would_without_us(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("raise KeyError('theirs')\n")
    done = python("print('goes on')", prepend(rank_env(tmp_path), tmp_path))

    assert done.stdout == "goes on\n"
    assert "theirs" in done.stderr


def test_users_own_runs_when_our_probe_fails(tmp_path: Path, empty_torch: Path):
    (tmp_path / "sitecustomize.py").write_text(USERS)
    env = prepend(rank_env(tmp_path), tmp_path, empty_torch)
    done = python(f"import os; {IMPORT}; print(os.environ['USERS_OWN'], d.WORLD)", env)

    assert (done.stdout, done.stderr) == ("ran 7\n", "")
    assert list(tmp_path.glob("*.problem")) != []


def test_process_without_torch_pays_nothing(tmp_path: Path):
    code = "import sys; print({'unstuck', 'typing'} & {m.partition('.')[0] for m in sys.modules})"
    done = python(code, rank_env(tmp_path))

    assert (done.stdout, done.stderr) == ("set()\n", "")
    (sign,) = tmp_path.iterdir()
    assert (sign.suffix, sign.stat().st_size) == (".born", 0)


def test_helper_of_a_watched_rank_leaves_no_sign(tmp_path: Path):
    python("pass", rank_env(tmp_path) | {"UNSTUCK_PROBED": "0"})
    assert list(tmp_path.iterdir()) == []


def test_our_folder_is_not_left_on_the_path_but_children_get_it(tmp_path: Path):
    code = "import os, sys; print(sys.path, os.environ['PYTHONPATH'])"
    path, _, variable = python(code, rank_env(tmp_path)).stdout.partition("] ")
    assert str(SITE) not in path
    assert variable.startswith(str(SITE))


def test_failing_probe_leaves_the_reason_and_the_script_goes_on(tmp_path: Path, empty_torch: Path):
    env = prepend(rank_env(tmp_path, rank=5), empty_torch)
    done = python(f"{IMPORT}; print(d.WORLD)", env)

    assert (done.stdout, done.stderr, done.returncode) == ("7\n", "", 0)
    (problem,) = tmp_path.glob("rank-5.*.problem")
    assert "AttributeError" in problem.read_text()


def test_live_directory_that_is_gone_stops_nobody(tmp_path: Path, empty_torch: Path):
    env = prepend(rank_env(tmp_path / "gone"), empty_torch)
    done = python(f"{IMPORT}; print(d.WORLD)", env)
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_module_keeps_its_own_loader(tmp_path: Path, empty_torch: Path):
    code = (
        "import sys, inspect, importlib, torch.distributed.distributed_c10d as d;"
        "print(type(d.__loader__).__name__, type(d.__spec__.loader).__name__);"
        "print(inspect.getsource(d).strip());"
        "print([f for f in sys.meta_path if 'sitecustomize' in type(f).__module__])"
    )
    done = python(code, prepend(rank_env(tmp_path), empty_torch))
    assert done.stdout == "SourceFileLoader SourceFileLoader\nWORLD = 7\n[]\n"


def test_interpreter_without_unstuck_is_probed_all_the_same(tmp_path: Path):
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "unstuck" not in entry.name:
            (packages / entry.name).symlink_to(entry)
    live = tmp_path / "live"
    live.mkdir()
    env = rank_env(live) | {"PYTHONPATH": os.pathsep.join([str(SITE), str(packages)])}
    bare = str(tmp_path / "venv" / "bin" / "python")
    lacks = "import importlib.util as u; print(u.find_spec('unstuck'))"
    assert python(lacks, env, bare).stdout == "None\n"

    code = (
        "import json, torch.distributed, unstuck, os, sys; unstuck.step(4);"
        "print(json.dumps([unstuck.__file__, os.listdir(os.environ['UNSTUCK_LIVE_DIR'])]))"
    )
    done = python(code, env, bare)
    assert done.stderr == ""
    file, names = json.loads(done.stdout)
    assert file == str(Path(unstuck.__file__))
    endings = {name.rpartition(".")[2] for name in names}
    assert endings == {"born", "page", "sock", "stacks"}
