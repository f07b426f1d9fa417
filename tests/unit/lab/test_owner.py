"""A tag tells whether its maker lives, also when the pid is somebody else's by now."""

import os
import subprocess
import sys

from unstuck.lab import owner


def test_a_living_maker_and_a_dead_one():
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait()

    assert owner.alive(owner.tag())
    assert owner.alive(f"{owner.tag()}-anything-behind-it")
    assert not owner.alive(f"{child.pid}-1")


def test_a_reused_pid_is_not_the_maker():
    assert not owner.alive(f"{os.getpid()}-1")


def test_what_is_not_a_tag_is_left_alone():
    assert owner.alive("something-else")


def test_processes_are_found_by_their_environment():
    argv = [sys.executable, "-c", "print(flush=True); input()"]
    env = {**os.environ, "LAB_TEST_MARK": "here"}
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()

        assert list(owner.marked("LAB_TEST_MARK")) == [(child.pid, "here")]
        child.kill()
