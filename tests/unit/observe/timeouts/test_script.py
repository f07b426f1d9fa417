"""A training script is read, not run."""

import ast
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from unstuck.model.timeouts import Layer, Origin
from unstuck.observe.timeouts import script
from unstuck.observe.timeouts.script import ScriptReading

Read = Callable[..., ScriptReading]

HEAD = """
import os
from datetime import timedelta
import torch.distributed as dist
"""


@pytest.fixture
def reading(tmp_path: Path) -> Read:
    def read(body: str, **modules: str) -> ScriptReading:
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(dedent(text))
        path = tmp_path / "train.py"
        path.write_text(HEAD + dedent(body))
        return script.read(path)

    return read


def groups(found: ScriptReading) -> dict[str, float | None]:
    return {k.name: k.seconds for k in found.knobs if k.layer is Layer.GROUP}


@pytest.mark.parametrize(
    ("argument", "seconds"),
    [
        ("timeout=timedelta(hours=2)", 7200.0),
        ("timeout=timedelta(minutes=1, seconds=30)", 90.0),
        ("timeout=timedelta(0, 45)", 45.0),
        ("timeout=timedelta(seconds=10 * 60)", 600.0),
        ("timeout=LIMIT", None),
        ("timeout=timedelta(minutes=N)", None),
        ("timeout=timedelta(parsecs=1)", None),
        ("timeout=timedelta(seconds=args.timeout)", None),
    ],
)
def test_the_timeout_of_init_process_group(
    reading: Read, argument: str, seconds: float | None
) -> None:
    found = reading(f'dist.init_process_group("gloo", {argument})')
    assert groups(found) == {"default process group": seconds}
    assert found.knobs[0].where == "train.py:5"
    assert found.knobs[0].origin is Origin.SCRIPT
    assert found.knobs[0].value == ("" if seconds else argument.removeprefix("timeout="))


@pytest.mark.parametrize(
    ("backend", "seconds"),
    [
        ('"nccl"', 600.0),
        ('backend="gloo"', 1800.0),
        ('"nccl" if cuda else "gloo"', None),
        ("args.backend", None),
        ("", 1800.0),
    ],
)
def test_without_one_torchs_default_holds(
    reading: Read, backend: str, seconds: float | None
) -> None:
    found = reading(f"dist.init_process_group({backend})")
    assert groups(found) == {"default process group": seconds}
    assert found.knobs[0].origin is Origin.DEFAULT


def test_groups_made_later_do_not_inherit(reading: Read) -> None:
    body = """
    from torch.distributed.device_mesh import init_device_mesh
    dist.init_process_group("gloo", timeout=timedelta(seconds=77))
    a = dist.new_group([0, 1])
    b = dist.new_group([0, 1], timeout=timedelta(seconds=9))
    plain = init_device_mesh("cpu", (2,))
    grid = init_device_mesh("cpu", (2, 2))
    """
    assert groups(reading(body)) == {
        "default process group": 77.0,
        "new_group at train.py:8": 1800.0,
        "new_group at train.py:9": 9.0,
        "init_device_mesh at train.py:11": 1800.0,
    }


def test_our_own_dist_takes_a_timeout(reading: Read) -> None:
    body = """
    from unstuck import dist as ours
    import unstuck
    ours.all_reduce(t, timeout=5)
    with unstuck.section("save", timeout=60): pass
    with unstuck.section("load", 30): pass
    """
    found = reading(body)
    assert [(k.name, k.layer, k.seconds) for k in found.knobs] == [
        ("unstuck.dist.all_reduce", Layer.OPERATION, 5.0),
        ("section 'save'", Layer.SECTION, 60.0),
        ("section 'load'", Layer.SECTION, 30.0),
    ]


def test_the_rest_of_our_dist_is_torchs(reading: Read) -> None:
    body = """
    from unstuck import dist
    dist.init_process_group("gloo", timeout=timedelta(seconds=77))
    dist.all_reduce(t)
    group = dist.new_group([0, 1])
    with dist.deadline(seconds=90): pass
    """
    found = reading(body)
    assert groups(found) == {"default process group": 77.0, "new_group at train.py:9": 1800.0}
    assert [k.name for k in found.knobs if k.layer is Layer.SECTION] == ["deadline at train.py:10"]


def test_no_collective_of_torch_takes_a_timeout() -> None:
    torch = find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    source = Path(torch.origin).parent / "distributed" / "distributed_c10d.py"
    found = {
        node.name: {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
        for node in ast.parse(source.read_bytes()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert "timeout" in found["barrier"]
    assert [name for name in script._COLLECTIVES if "timeout" in found[name]] == []


def test_a_timeout_may_stand_where_it_is_the_second_or_third(reading: Read) -> None:
    body = """
    dist.init_process_group("gloo", "env://", timedelta(seconds=77))
    group = dist.new_group([0, 1], timedelta(seconds=9))
    """
    assert list(groups(reading(body)).values()) == [77.0, 9.0]


def test_a_function_of_the_script_that_is_named_like_a_frameworks(reading: Read) -> None:
    body = """
    def init_distributed(timeout): ...
    init_distributed(timeout=60)
    """
    assert reading(body).knobs == ()
    deepspeed = "import deepspeed\ndeepspeed.init_distributed(timeout=timedelta(seconds=60))\n"
    assert groups(reading(deepspeed)) == {"default process group": 60.0}


def test_frameworks_make_the_default_group(reading: Read) -> None:
    body = """
    from transformers import TrainingArguments
    args = TrainingArguments(output_dir="x", ddp_timeout=7200)
    """
    assert groups(reading(body)) == {"default process group": 7200.0}


def test_variables_that_are_set_and_read(reading: Read) -> None:
    body = """
    os.environ["NCCL_TIMEOUT"] = "5400"
    os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    limit = int(os.environ.get("DIST_TIMEOUT", 60)) + int(os.environ["PG_TIMEOUT"])
    """
    found = reading(body)
    assert found.sets == (
        ("NCCL_TIMEOUT", "5400", "train.py:6"),
        ("TORCH_NCCL_BLOCKING_WAIT", "1", "train.py:7"),
    )
    assert set(found.reads) == {"DIST_TIMEOUT", "PG_TIMEOUT"}


def test_modules_beside_the_script_are_read_too(reading: Read) -> None:
    setup = """
    import torch.distributed as dist
    from datetime import timedelta
    def begin(): dist.init_process_group("gloo", timeout=timedelta(seconds=50))
    """
    found = reading("from setting_up import begin\nimport json\n", setting_up=setup)
    assert groups(found) == {"default process group": 50.0}
    assert found.knobs[0].where == "setting_up.py:4"


@pytest.mark.parametrize("body", ["def (:\n", "x = '\x00'\n"])
def test_a_file_that_is_no_python_is_said_to_be_unseen(reading: Read, body: str) -> None:
    found = reading(body)
    assert found.knobs == ()
    assert found.unseen[0].startswith("train.py")
