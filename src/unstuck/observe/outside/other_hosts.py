"""Ask for the same look on other machines: `unstuck attach --evidence` there, by ssh."""

import shlex
import subprocess
from collections.abc import Sequence

from unstuck.errors import WorldError

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=5 {host}"
_WITHIN = 60.0
_TRY = "try by hand: {command} --version"


def ask(hosts: Sequence[str], via: str, arguments: Sequence[str]) -> list[bytes]:
    """Run `unstuck` with these arguments on all hosts at once and return what each printed.

    Raises:
        WorldError: one of them cannot be reached, or has no unstuck.

    Example:
        ask(["node1"], SSH, ["attach", "--evidence"])
    """
    commands = [[one.replace("{host}", host) for one in shlex.split(via)] for host in hosts]
    started = [
        subprocess.Popen(
            [*command, "unstuck", *_quoted(command, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for command in commands
    ]
    return [_answer(*one) for one in zip(hosts, commands, started, strict=True)]


def _quoted(command: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Ssh hands its arguments to a shell, others to the program itself."""
    return [*map(shlex.quote, arguments)] if command[0].endswith("ssh") else [*arguments]


def _answer(host: str, command: Sequence[str], started: subprocess.Popen[bytes]) -> bytes:
    try:
        out, err = started.communicate(timeout=_WITHIN)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()
        raise WorldError(f"{host} gave no answer within {_WITHIN:.0f} s") from None
    if started.returncode:
        lines = err.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        said = next((one for one in lines if one.startswith("unstuck: ")), lines[-1])
        raise WorldError(
            f"{host} could not be looked at: {said.removeprefix('unstuck: ')[:200]}",
            hint=_TRY.format(command=shlex.join([*command, "unstuck"])),
        )
    return out
