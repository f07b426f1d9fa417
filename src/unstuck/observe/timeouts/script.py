"""Find the timeouts that a training script spells out, without running it.

Calls are recognised by their name alone, and only literals are understood:
`timedelta(minutes=10)`, `timeout=10 * 60`. Anything else is reported as it is written, with its
file and line, and its value as unknown.
"""

import ast
import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from msgspec import Struct

from unstuck.model.timeouts import Knob, Layer, Origin, default_group_timeout
from unstuck.observe.probe import own_timeouts

_GROUPS = {
    "init_process_group": 2,
    "new_group": 1,
    "new_subgroups": None,
    "new_subgroups_by_enumeration": None,
    "split_group": None,
    "init_device_mesh": None,
}
"""Calls that make process groups -> the position of `timeout`, where it is likely used."""
_FRAMEWORKS = {
    "InitProcessGroupKwargs": "timeout",
    "TrainingArguments": "ddp_timeout",
    "Seq2SeqTrainingArguments": "ddp_timeout",
    "DDPStrategy": "timeout",
    "FSDPStrategy": "timeout",
    "init_distributed": "timeout",
}
"""Calls of accelerate, transformers, Lightning and DeepSpeed that make the default group."""
_OTHERS = {
    "barrier": Layer.OPERATION,
    "monitored_barrier": Layer.OPERATION,
    "TCPStore": Layer.STORE,
    "DataLoader": Layer.SECTION,
    "section": Layer.SECTION,
    "watched": Layer.SECTION,
    "deadline": Layer.SECTION,
}
_COLLECTIVES = frozenset(
    {"all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather",
     "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
     "send", "recv", "isend", "irecv", "batch_isend_irecv", "all_gather_object", "gather_object",
     "broadcast_object_list", "scatter_object_list"}
)  # fmt: skip
"""Those of `unstuck.dist` take a timeout; torch's own do not."""


class ScriptReading(Struct, frozen=True):
    """What a script says about timeouts."""

    knobs: tuple[Knob, ...] = ()
    backends: tuple[str, ...] = ()
    """Empty where some group's backend is not a literal."""
    reads: tuple[str, ...] = ()
    """Variables that the script mentions and does not set, so that it may well read them."""
    sets: tuple[tuple[str, str, str], ...] = ()
    """Variables that it sets: name, value, file and line."""
    unseen: tuple[str, ...] = ()


def read(script: Path, root: Path | None = None) -> ScriptReading:
    """Read a script and the modules below `root` that it imports itself.

    Example:
        read(Path("train.py")).knobs
    """
    home = (root or script.parent).resolve()
    found = _Found()
    tree = found.read_file(script.resolve(), home)
    for path in dict.fromkeys(_modules(tree, home)):
        if path != script.resolve():
            found.read_file(path, home)
    return ScriptReading(
        knobs=tuple(found.knobs),
        backends=() if "" in found.backends else tuple(dict.fromkeys(found.backends)),
        reads=tuple(found.mentions - {name for name, _, _ in found.sets}),
        sets=tuple(found.sets),
        unseen=tuple(found.unseen),
    )


def _modules(tree: ast.Module, home: Path) -> Iterator[Path]:
    """Yield the files below `home` that a module imports."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        for name in names:
            path = home.joinpath(*name.split(".")).with_suffix(".py")
            if path.is_file():
                yield path


class _Found:
    """Collects the timeouts of a few files."""

    def __init__(self) -> None:
        self.knobs: list[Knob] = []
        self.backends: list[str] = []
        self.mentions: set[str] = set()
        self.sets: list[tuple[str, str, str]] = []
        self.unseen: list[str] = []

    def read_file(self, path: Path, home: Path) -> ast.Module:
        """Collect the timeouts of one file; return its syntax tree, empty where unreadable."""
        file = str(path.relative_to(home) if path.is_relative_to(home) else path)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            self.unseen.append(f"{file} ({error})")
            return ast.Module([], [])
        nodes = sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0))
        own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for node in nodes:
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name not in own:
                    self._call(node, name, f"{file}:{node.lineno}")
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                self._set(node.targets[0].slice, node.value, f"{file}:{node.lineno}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.mentions |= own_timeouts.relevant({node.value: ""}).keys()
        return tree

    def _call(self, node: ast.Call, name: str, where: str) -> None:
        timeout = _argument(node, "timeout", _GROUPS.get(name))
        if name in _GROUPS:
            self._group(node, name, timeout, where)
        elif name in _FRAMEWORKS:
            timeout = _argument(node, _FRAMEWORKS[name])
            self._add("default process group", Layer.GROUP, timeout, where, about=f"by {name}")
        elif name in _COLLECTIVES:
            self._add(f"unstuck.dist.{name}", Layer.OPERATION, timeout, where)
        elif name in _OTHERS:
            shown, layer = name, _OTHERS[name]
            if layer is Layer.SECTION:
                timeout = timeout or _argument(node, "seconds", 1 if name == "section" else None)
                label = next(_strings(node.args[0]), "") if name == "section" and node.args else ""
                shown = f"{name} {label!r}" if label else f"{name} at {where}"
            self._add(shown, layer, timeout, where)
        elif name == "setdefault" and len(node.args) == 2:
            self._set(node.args[0], node.args[1], where)

    def _group(self, node: ast.Call, name: str, timeout: ast.expr | None, where: str) -> None:
        shown = f"{name} at {where}"
        if name == "init_process_group":
            shown = "default process group"
            if (backend := _argument(node, "backend", 0)) is not None:
                # Both of `"nccl" if cuda else "gloo"`; "" where only running would tell.
                self.backends += list(_strings(backend)) or [""]
        elif name == "init_device_mesh":
            shape = _argument(node, "mesh_shape", 1)
            if isinstance(shape, ast.Tuple) and len(shape.elts) == 1:
                return  # The default group itself.
        known = set(self.backends)
        sure = len(known) < 2 and "" not in known
        backend = next(iter(known), "") if sure else ""
        if timeout is not None:
            self._add(shown, Layer.GROUP, timeout, where, backend=backend)
            return
        seconds = default_group_timeout(backend) if sure else None
        about = "none given" if sure else "10 min on nccl, else 30 min"
        self.knobs.append(Knob(shown, Layer.GROUP, seconds, where=where, about=about))

    def _add(
        self,
        name: str,
        layer: Layer,
        timeout: ast.expr | None,
        where: str,
        *,
        about: str = "",
        backend: str = "",
    ) -> None:
        seconds = _seconds(timeout) if timeout is not None else 0.0
        if timeout is not None and seconds != 0:
            value = "" if seconds is not None else ast.unparse(timeout)[:60]
            knob = Knob(name, layer, seconds, value, Origin.SCRIPT, where, about, backend)
            self.knobs.append(knob)

    def _set(self, variable: ast.expr, value: ast.expr, where: str) -> None:
        """Note an assignment to what looks like an environment variable about timeouts."""
        literal = str(value.value) if isinstance(value, ast.Constant) else ""
        names = own_timeouts.relevant(dict.fromkeys(_strings(variable), ""))
        self.sets += [(name, literal, where) for name in names]


def _argument(node: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    given = next((k.value for k in node.keywords if k.arg == name), None)
    if given is None and position is not None and len(node.args) > position:
        given = node.args[position]
    return None if isinstance(given, ast.Constant) and given.value is None else given


def _strings(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _number(node: ast.expr) -> float:
    """Return the value of `90` or `10 * 60`, and NaN for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _number(node.left) * _number(node.right)
    value = node.value if isinstance(node, ast.Constant) else None
    return float(value) if isinstance(value, int | float) else math.nan


def _seconds(node: ast.expr) -> float | None:
    """Return the seconds of a number or of a timedelta made of numbers."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("timedelta"):
        number = _number(node)
        return None if math.isnan(number) else number
    given = {keyword.arg or "**": _number(keyword.value) for keyword in node.keywords}
    try:
        return timedelta(*map(_number, node.args), **given).total_seconds()
    except (TypeError, ValueError, OverflowError):  # ValueError: one of them is NaN.
        return None
