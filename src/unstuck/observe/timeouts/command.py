"""Everything that a command line and an environment say about a job's timeouts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from unstuck.model.timeouts import JobSettings, Knob, Layer, Origin
from unstuck.observe.timeouts import environment, script, torchrun
from unstuck.observe.timeouts.launch_options import python_script, split, torchrun_arguments


def read(
    argv: Sequence[str], env: Mapping[str, str], now: float, *, ask: bool = False
) -> JobSettings:
    """Read a launch command that need not run yet: its options, its script, the environment.

    `ask` allows a call of `scontrol`. Without a command (`argv` empty) the environment is read.

    Example:
        read(["torchrun", "train.py"], os.environ, time.time()).knobs
    """
    found, home = _script(argv)
    reading = script.read(found, home) if found else script.ScriptReading()
    knobs, notes = torchrun.read(argv, env)
    nccl = any("nccl" in backend for backend in reading.backends)
    limit, unseen = environment.scheduler(env, now, ask=ask)
    inside = environment.read(env, nccl=nccl)
    return JobSettings(
        source=" ".join(argv) or "the environment",
        knobs=(*reading.knobs, *_set_by_script(reading), *inside, *knobs, *limit),
        backends=reading.backends,
        several_nodes=any(knob.name == "exit barrier" for knob in knobs),
        read_by_script=reading.reads,
        notes=notes,
        unseen=(*_no_group(found, reading), *reading.unseen, *unseen),
    )


def _script(argv: Sequence[str]) -> tuple[Path | None, Path | None]:
    """Find the script of a command, and the folder that its own modules lie below."""
    if not argv:
        return None, None
    arguments = torchrun_arguments(argv)
    options, rest = split(arguments) if arguments is not None else ({}, python_script(argv))
    if not rest:
        return None, None
    plain_module = arguments is None and "-m" in argv[: argv.index(rest[0])]
    if "-m" in options or "--module" in options or plain_module:
        base = Path.cwd().joinpath(*rest[0].split("."))
        places = (base.with_suffix(".py"), base / "__main__.py")
        return next((place for place in places if place.is_file()), None), Path.cwd()
    place = Path(rest[0])
    return (place, place.parent) if place.suffix == ".py" and place.is_file() else (None, None)


def _set_by_script(reading: script.ScriptReading) -> list[Knob]:
    """Variables that the script sets itself, as far as they are timeouts."""
    return [
        Knob(name, knob.layer, knob.seconds, value, Origin.SCRIPT, where, knob.about)
        for name, value, where in reading.sets
        for knob in environment.read({name: value}, nccl=False)
        if knob.layer is Layer.WATCHDOG
    ]


def _no_group(found: Path | None, reading: script.ScriptReading) -> tuple[str, ...]:
    made = any(k.name == "default process group" for k in reading.knobs)
    if found is None or made:
        return ()
    text = (
        f"the process group: {found.name} does not create it itself; the timeout that a library "
        "gives it is shown once the job runs under unstuck run"
    )
    return (text,)
