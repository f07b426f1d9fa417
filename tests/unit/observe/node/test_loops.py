"""Which loops of the script a stack is in."""

from pathlib import Path

import pytest

from unstuck.model.rank import CodeLine
from unstuck.observe.node.loops import loops_around, route_to

SCRIPT = """\
def step(batch):
    reduce(batch)


def main():
    for epoch in range(3):
        for batch in loader:
            step(batch)
        else:
            tidy()
        validate()
    while waiting():
        pass
    finish()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize(
    ("lines", "loops"),
    [
        ([2, 8], ("train.py:6", "train.py:7")),
        ([7], ("train.py:6", "train.py:7")),
        ([10], ("train.py:6",)),
        ([11], ("train.py:6",)),
        ([13], ("train.py:12",)),
        ([14], ()),
    ],
)
def test_loops_of_all_frames_outermost_first(
    script: str, lines: list[int], loops: tuple[str, ...]
) -> None:
    assert loops_around((script, line) for line in lines) == loops


def test_torch_and_the_standard_library_do_not_count(script: str) -> None:
    import threading

    library = [(threading.__file__, line) for line in range(1, 400)]
    assert loops_around([*library, ("/lib/torch/nn/module.py", 3), (script, 14)]) == ()


def test_the_route_has_the_calls_of_the_script_only_outermost_first(script: str) -> None:
    import threading

    inner, outer = CodeLine(script, 7, "step"), CodeLine(script, 14, "main")
    library = CodeLine(threading.__file__, 3, "run")
    assert route_to([inner, CodeLine("/lib/torch/nn/module.py", 3, "f"), library, outer]) == (
        outer,
        inner,
    )


def test_nothing_is_known_without_source(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("for x in\n")
    assert loops_around([(str(broken), 1), ("<string>", 1)]) is None
