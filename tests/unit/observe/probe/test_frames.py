"""The user's own frames are told from libraries'."""

import copy
import sys
import sysconfig
import threading
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import pytest

import unstuck
from unstuck.observe.probe import frames

PATHS = sysconfig.get_paths()


@pytest.mark.parametrize(
    "file",
    [
        threading.__file__,
        f"{PATHS['purelib']}/torch/nn/module.py",
        "/opt/other/lib/python3.12/site-packages/numpy/core.py",
        "/usr/lib/python3/dist-packages/yaml.py",
        "/opt/conda/lib/python3.11/json/decoder.py",
        str(Path(unstuck.__file__).parent / "observe" / "probe" / "beat.py"),
        f"{PATHS['scripts']}/torchrun",
        "<frozen runpy>",
        "<string>",
    ],
)
def test_library_code(file: str):
    assert not frames.is_user_code(file)


@pytest.mark.parametrize(
    "file",
    [
        __file__,
        "/home/ann/train.py",
        "train.py",
        f"{sys.prefix}/app/train.py",
        str(Path(unstuck.__file__).parent / "lab" / "programs" / "exit_code.py"),
    ],
)
def test_user_code(file: str):
    assert frames.is_user_code(file)


def wait_here(started: threading.Event, over: threading.Event) -> None:
    started.set()
    over.wait()


def test_stack_of_a_thread_goes_down_to_the_users_line():
    started, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait_here, args=(started, over))
    thread.start()
    started.wait()
    while len(found := frames.of_thread(thread.ident or 0)) < 3:
        assert thread.is_alive()
    over.set()
    thread.join()

    assert [frame[2] for frame in found] == ["wait", "wait", "wait_here"]
    assert [frame[3] for frame in found] == [False, False, True]
    assert found[-1][0] == __file__
    assert "over.wait()" in Path(__file__).read_text().splitlines()[found[-1][1] - 1]


def test_thread_that_is_gone_has_no_stack():
    assert frames.of_thread(1) == []


def copy_deep(waiting: Queue[None]) -> None:
    copy.deepcopy([[[[[SimpleNamespace(__deepcopy__=waiting.get)]]]]])  # get() waits


def test_deep_library_stack_keeps_its_innermost_frames_the_users_and_what_that_called():
    waiting = Queue[None]()
    thread = threading.Thread(target=copy_deep, args=(waiting,))
    thread.start()
    found = frames.of_thread(thread.ident or 0)
    while not found or found[0][2] != "wait":
        assert thread.is_alive()
        found = frames.of_thread(thread.ident or 0)
    waiting.put(None)
    thread.join()

    innermost = ["wait", "get", "deepcopy", "_deepcopy_list", "deepcopy", "_deepcopy_list"]
    assert [frame[2] for frame in found] == [*innermost, "deepcopy", "copy_deep"]
    assert found[-2][0] == copy.__file__
    assert [frame[3] for frame in found] == [False] * 7 + [True]


def test_exception_is_seen_while_its_cleanup_runs():
    seen: list[str] = []
    try:
        try:
            raise KeyError("label")
        finally:
            seen.append(frames.handled_by(threading.get_ident()))
    except KeyError:
        seen.append(frames.handled_by(threading.get_ident()))
    assert seen == ["KeyError: label"] * 2
    assert frames.handled_by(threading.get_ident()) == ""


def test_no_code_of_the_exception_runs():
    class Odd(Exception):
        def __str__(self) -> str:
            raise AssertionError

    def fail() -> None:
        raise Odd(1)

    try:
        fail()
    except Odd:
        assert frames.handled_by(threading.get_ident()) == "Odd"
