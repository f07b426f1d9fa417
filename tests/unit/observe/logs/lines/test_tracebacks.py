"""A traceback stays whole although other ranks write in between."""

from unstuck.observe.logs.lines.tracebacks import innermost

LINES = [
    "[rank2]: Traceback (most recent call last):",
    '[rank2]:   File "/job/train.py", line 41, in main',
    "[rank0]: Traceback (most recent call last):",
    '[rank0]:   File "/job/other.py", line 1, in f',
    '[rank2]:   File "/job/data.py", line 17, in load',
    "[rank2]:     batch = next(it)",
    '[rank2]:   File "/venv/lib/python3.11/site-packages/torch/x.py", line 5, in g',
]


def test_the_users_own_innermost_frame_is_found():
    frame = innermost(LINES, 2)
    assert frame is not None
    assert (frame.file, frame.line, frame.function) == ("/job/data.py", 17, "load")
    assert frame.text == "batch = next(it)"


def test_without_a_frame_there_is_none():
    assert innermost(["nothing", "here"], None) is None
