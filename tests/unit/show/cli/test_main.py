"""The command line: fast, with errors of one line, and nothing escapes from main."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType

import click
import pytest

from unstuck.errors import InternalError, UserError, WorldError
from unstuck.show.cli.main import COMMANDS, main

Capture = pytest.CaptureFixture[str]


@contextmanager
def command(body: Callable[[], object]) -> Generator[None, None, None]:
    """Offer a command `probe` that does this, for as long as the block lasts."""
    name = "probe"
    module = ModuleType(f"unstuck.show.cli.{name}")
    module.__dict__[name] = click.command(name)(body)
    sys.modules[module.__name__] = module
    COMMANDS[name] = "Only for this test."
    try:
        yield
    finally:
        del COMMANDS[name], sys.modules[module.__name__]


def raising(error: BaseException) -> Callable[[], object]:
    def body() -> object:
        raise error

    return body


def test_version_is_printed(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("unstuck ")


def test_importing_main_loads_nothing_heavy() -> None:
    code = (
        "import sys, unstuck.show.cli.main; "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in "
        "('torch', 'rich', 'msgspec', 'psutil') or m.startswith('unstuck')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert eval(done.stdout) == [
        "unstuck",
        "unstuck._version",
        "unstuck.errors",
        "unstuck.observe",
        "unstuck.observe.probe",
        "unstuck.observe.probe.frames",
        "unstuck.observe.probe.page",
        "unstuck.observe.probe.section_timeout",
        "unstuck.observe.probe.this_process",
        "unstuck.script",
        "unstuck.script.api",
        "unstuck.script.deadlines",
        "unstuck.script.interrupt",
        "unstuck.script.section",
        "unstuck.script.wake_main",
        "unstuck.script.wrap",
        "unstuck.show",
        "unstuck.show.cli",
        "unstuck.show.cli.main",
    ]


def test_python_m_unstuck_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unstuck", "diagnos"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "did you mean `diagnose`?" in done.stderr


def test_help_lists_all_commands_without_loading_them(capsys: Capture) -> None:
    before = set(sys.modules)
    assert main(["--help"]) == 0

    out = capsys.readouterr().out
    assert [name for name in COMMANDS if f"  {name}  " in out] == list(COMMANDS)
    assert not {m for m in set(sys.modules) - before if m.startswith("unstuck.show.cli.")}


def test_no_arguments_shows_help_and_is_a_usage_error(capsys: Capture) -> None:
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_unknown_command_suggests_the_nearest(capsys: Capture) -> None:
    assert main(["completoin"]) == 2
    assert capsys.readouterr().err == (
        "unstuck: there is no command `completoin`; did you mean `completion`?\n"
        "  try `unstuck --help`\n"
    )


def test_command_like_no_other_gets_no_suggestion(capsys: Capture) -> None:
    assert main(["xyzzy"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_wrong_option_is_one_line_and_where_to_look(capsys: Capture) -> None:
    assert main(["completion", "--nope", "bash"]) == 2
    message, hint = capsys.readouterr().err.splitlines()
    assert message.startswith("unstuck: no such option")
    assert hint == "  try `unstuck completion --help`"


@pytest.mark.parametrize(("kind", "code"), [(UserError, 2), (WorldError, 3), (InternalError, 4)])
def test_our_errors_become_message_hint_and_exit_code(
    capsys: Capture, kind: type[UserError], code: int
) -> None:
    with command(raising(kind("the disk is full", hint="df -h"))):
        assert main(["probe"]) == code

    captured = capsys.readouterr()
    assert captured.err == "unstuck: the disk is full\n  df -h\n"
    assert captured.out == ""


def test_unexpected_exception_is_called_our_bug(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNSTUCK_DEBUG", raising=False)
    with command(raising(KeyError("rank"))):
        assert main(["probe"]) == 4

    err = capsys.readouterr().err
    assert err.startswith("unstuck: this is a bug in unstuck: KeyError: 'rank'\n")
    assert "Traceback" not in err


def test_debug_shows_the_traceback(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTUCK_DEBUG", "1")
    with command(raising(KeyError("rank"))):
        assert main(["probe"]) == 4

    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interrupt_ends_quietly_with_130(capsys: Capture, error: BaseException) -> None:
    with command(raising(error)):
        assert main(["probe"]) == 130

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (lambda: 7, 7),
        (lambda: None, 0),
        (lambda: sys.exit(9), 9),
        (lambda: click.get_current_context().exit(5), 5),
    ],
)
def test_command_gives_its_exit_code_in_any_usual_way(
    body: Callable[[], object], code: int
) -> None:
    with command(body):
        assert main(["probe"]) == code


def test_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "unstuck", "completion", "bash"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)

    assert done.stderr == ""
    assert done.returncode == 141
