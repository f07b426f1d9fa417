"""Take a launch command apart: the options of torchrun, the script and its own arguments."""

from collections.abc import Mapping, Sequence
from pathlib import Path

_FLAGS = frozenset(
    {"--standalone", "--no-python", "--run-path", "-m", "--module", "--virtual-local-rank", "-h",
     "--help"}
)  # fmt: skip
"""The options of torchrun that take no value; all others do."""
_PYTHON_FLAGS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_LAUNCHER_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})


def torchrun_arguments(argv: Sequence[str]) -> list[str] | None:
    """Return what follows torchrun, or None when the command is something else."""
    for index, word in enumerate(argv):
        if Path(word).name == "torchrun":
            return list(argv[index + 1 :])
        if word == "-m" and argv[index + 1 : index + 2] and argv[index + 1] in _LAUNCHER_MODULES:
            return list(argv[index + 2 :])
        if word.endswith(".py"):
            return None
    return None


def split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split torchrun's own options from the script and its arguments."""
    options: dict[str, str] = {}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        name, equals, value = arguments[index].partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        index += 1
        if name == "--":
            break
        glued = not name.startswith("--") and len(name) > 2  # -r3
        if not equals and not glued and name not in _FLAGS and index < len(arguments):
            value = arguments[index]
            index += 1
        options[name] = value
    return options, arguments[index:]


def option(options: Mapping[str, str], env: Mapping[str, str], name: str) -> str | None:
    """An option, else the variable that torchrun reads in its place."""
    return options.get(name) or env.get("PET_" + name[2:].replace("-", "_").upper())


def python_script(argv: Sequence[str]) -> list[str]:
    """Return the script and its arguments of `python [options] script.py …`; empty for others."""
    if not Path(argv[0]).name.startswith("python"):
        return []
    index = 1
    while index < len(argv) and argv[index].startswith("-"):
        if argv[index] in ("-c", "-m", "-"):
            return list(argv[index + 1 :]) if argv[index] == "-m" else []
        index += 2 if argv[index] in _PYTHON_FLAGS_WITH_VALUE else 1
    return list(argv[index:])
