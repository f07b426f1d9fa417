"""Read a training script without running it: which timeouts it gives, and which it cannot give."""

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from unstuck.model.knob import Knob, KnobNote, Layer, NoteKind, Origin
from unstuck.observe.settings.names import Names

DEFAULT_NCCL = 600.0
DEFAULT = 1800.0
"""Of every other backend, and of a group whose backend is not given."""
_MOST_FILES = 50
_MOST_BYTES = 1 << 20
_COLLECTIVES = frozenset(
    {"all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather",
     "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
     "send", "recv", "isend", "irecv", "batch_isend_irecv", "all_gather_object", "gather_object",
     "broadcast_object_list", "scatter_object_list"}
)  # fmt: skip
"""None of them takes `timeout` in torch 2.13."""
_OURS = _COLLECTIVES | {"barrier", "section", "watched", "deadline"}
"""What of unstuck takes a timeout; the rest of `unstuck.dist` is torch's."""
_NEW_GROUPS = frozenset(
    {"new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group"}
)
_FRAMEWORKS = {
    "InitProcessGroupKwargs": "timeout",
    "TrainingArguments": "ddp_timeout",
    "Seq2SeqTrainingArguments": "ddp_timeout",
    "DDPStrategy": "timeout",
    "FSDPStrategy": "timeout",
    "init_distributed": "timeout",
}
"""Calls of accelerate, transformers, Lightning and DeepSpeed that make the default group."""


class ScriptReading(Struct, frozen=True):
    """What a script says about timeouts."""

    knobs: tuple[Knob, ...] = ()
    notes: tuple[KnobNote, ...] = ()
    backends: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """Variables that the script itself reads."""
    sets: tuple[tuple[str, str, str], ...] = ()
    """Variables that it sets: name, value, file and line."""
    unseen: tuple[str, ...] = ()


def read(script: Path, root: Path | None = None) -> ScriptReading:
    """Read a script and the modules of its own that it imports, below `root`.

    Example:
        read(Path("train.py")).knobs
    """
    home = (root or script.parent).resolve()
    found = _Found()
    waiting, seen = [script.resolve()], {script.resolve()}
    while waiting and len(seen) <= _MOST_FILES:
        path = waiting.pop(0)
        for more in _read_file(path, home, found):
            if more not in seen:
                seen.add(more)
                waiting.append(more)
    return ScriptReading(
        knobs=tuple(found.knobs),
        notes=tuple(found.notes),
        backends=tuple(dict.fromkeys(found.backends)),
        reads=tuple(dict.fromkeys(found.reads)),
        sets=tuple(found.sets),
        unseen=tuple(found.unseen),
    )


class _Found:
    def __init__(self) -> None:
        self.knobs: list[Knob] = []
        self.notes: list[KnobNote] = []
        self.backends: list[str] = []
        self.reads: list[str] = []
        self.sets: list[tuple[str, str, str]] = []
        self.unseen: list[str] = []


def _read_file(path: Path, home: Path, found: _Found) -> list[Path]:
    """Read one file; return the local modules that it imports."""
    shown = path.relative_to(home) if path.is_relative_to(home) else path
    try:
        if path.stat().st_size > _MOST_BYTES:
            found.unseen.append(f"{shown} (too large to be read)")
            return []
        tree = ast.parse(path.read_bytes())
    except OSError as error:
        found.unseen.append(f"{shown} ({(error.strerror or str(error)).lower()})")
        return []
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        found.unseen.append(f"{shown}{line} (not Python that can be read)")
        return []
    names = Names(tree)
    reader = _Reader(names, str(shown), found)
    for node in sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Call):
            reader.call(node)
        elif isinstance(node, ast.Subscript):
            reader.subscript(node)
        elif isinstance(node, ast.Assign):
            reader.assign(node)
    return list(_local_modules(names.modules, home))


def _local_modules(modules: list[str], home: Path) -> Iterator[Path]:
    for module in modules:
        base = home.joinpath(*module.split("."))
        for candidate in (base.with_suffix(".py"), base / "__init__.py"):
            if candidate.is_file() and candidate.resolve().is_relative_to(home):
                yield candidate.resolve()


class _Reader:
    """Turns the calls of one file into knobs."""

    def __init__(self, names: Names, file: str, found: _Found) -> None:
        self._names = names
        self._file = file
        self._found = found

    def _where(self, node: ast.expr | ast.stmt) -> str:
        return f"{self._file}:{node.lineno}"

    # --- calls

    def call(self, node: ast.Call) -> None:
        name = self._names.dotted(node.func)
        plain = name.rpartition(".")[2]
        if name.startswith("unstuck.") and plain in _OURS:
            self._our_call(node, plain)
        elif name.startswith(("torch.distributed.", "unstuck.dist.")):
            self._torch_call(node, plain)
        elif plain == "DataLoader":
            self._loader(node, plain)
        elif plain in _FRAMEWORKS and (
            plain != "init_distributed" or name.startswith("deepspeed.")
        ):
            self._framework(node, plain)
        elif plain in ("getenv", "get", "setdefault", "pop", "putenv"):
            self._environ_call(node, name)

    def _torch_call(self, node: ast.Call, name: str) -> None:
        timeout = _keyword(node, "timeout")
        if name == "init_process_group":
            self._init(node)
        elif name in _NEW_GROUPS:
            second = node.args[1] if name == "new_group" and len(node.args) > 1 else None
            self._sub_group(node, name, timeout or second)
        elif name == "init_device_mesh":
            self._mesh(node)
        elif name == "TCPStore" and timeout is not None:
            self._given(name, Layer.STORE, timeout, node)
        elif name in ("barrier", "monitored_barrier") and timeout is not None:
            self._given(name, Layer.OPERATION, timeout, node)
        elif name == "monitored_barrier":
            text = (
                "monitored_barrier without timeout waits the backend's default of 30 min, "
                "not the timeout of its group"
            )
            self._note(NoteKind.HINT, f"monitored_barrier ({self._where(node)})", text)
        elif name in _COLLECTIVES and timeout is not None:
            text = (
                f"torch.distributed.{name} takes no timeout and raises TypeError; "
                f"unstuck.dist.{name} does"
            )
            self._note(NoteKind.CONFLICT, f"{name}(timeout=) ({self._where(node)})", text)

    def _init(self, node: ast.Call) -> None:
        backends = self._backends(node)
        self._found.backends += backends
        timeout = _keyword(node, "timeout") or (node.args[2] if len(node.args) > 2 else None)
        if timeout is not None:
            backend = backends[0] if len(backends) == 1 else ""
            self._given("default process group", Layer.GROUP, timeout, node, backend=backend)
            return
        about = "10 min on nccl, else 30 min" if len(backends) > 1 else ""
        seconds = None if len(backends) > 1 else _default_of(backends)
        self._add("default process group", Layer.GROUP, seconds, node, about=about)

    def _backends(self, node: ast.Call) -> list[str]:
        given = _keyword(node, "backend") or (node.args[0] if node.args else None)
        return self._names.strings(given) if given is not None else []

    def _default_seconds(self) -> float | None:
        known = list(dict.fromkeys(self._found.backends))
        return None if len(known) > 1 else _default_of(known)

    def _sub_group(self, node: ast.Call, name: str, timeout: ast.expr | None) -> None:
        shown = f"{name} at {self._where(node)}"
        if timeout is not None:
            self._given(shown, Layer.GROUP, timeout, node)
        else:
            self._add(shown, Layer.GROUP, self._default_seconds(), node)

    def _mesh(self, node: ast.Call) -> None:
        """A mesh of one dimension over all ranks is the default group; others make groups."""
        shape = _keyword(node, "mesh_shape") or (node.args[1] if len(node.args) > 1 else None)
        if not (isinstance(shape, ast.Tuple) and len(shape.elts) == 1):
            shown = f"init_device_mesh at {self._where(node)}"
            self._add(shown, Layer.GROUP, self._default_seconds(), node)

    def _our_call(self, node: ast.Call, name: str) -> None:
        timeout = _keyword(node, "timeout") or _keyword(node, "seconds")
        if name == "section" and timeout is None and len(node.args) > 1:
            timeout = node.args[1]
        if timeout is None:
            return
        if name in ("section", "watched", "deadline"):
            label = self._names.strings(node.args[0]) if name == "section" and node.args else []
            shown = f"{name} {label[0]!r}" if label else f"{name} at {self._where(node)}"
            self._given(shown, Layer.SECTION, timeout, node)
        else:
            self._given(f"unstuck.dist.{name}", Layer.OPERATION, timeout, node)

    def _loader(self, node: ast.Call, name: str) -> None:
        timeout = _keyword(node, "timeout")
        seconds = self._names.seconds(timeout) if timeout is not None else None
        if timeout is not None and seconds != 0:
            self._given(f"{name} at {self._where(node)}", Layer.SECTION, timeout, node)

    def _framework(self, node: ast.Call, name: str) -> None:
        timeout = _keyword(node, _FRAMEWORKS[name])
        if timeout is not None:
            self._given("default process group", Layer.GROUP, timeout, node, about=f"by {name}")

    # --- the environment

    def _environ_call(self, node: ast.Call, name: str) -> None:
        environ, _, method = name.rpartition(".")
        if not node.args or (
            name != "os.getenv" and environ != "os.environ" and method != "putenv"
        ):
            return
        for variable in self._names.strings(node.args[0]):
            if method in ("setdefault", "putenv") and len(node.args) > 1:
                self._set(variable, node.args[1], node)
            elif method in ("getenv", "get", "pop"):
                self._found.reads.append(variable)

    def subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Load) and self._names.dotted(node.value) == "os.environ":
            self._found.reads += self._names.strings(node.slice)

    def assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                if self._names.dotted(target.value) == "os.environ":
                    for variable in self._names.strings(target.slice):
                        self._set(variable, node.value, node)
            elif isinstance(target, ast.Attribute) and target.attr == "_timeout":
                text = (
                    "on gloo an assignment to _timeout of a group's options reads back and "
                    "changes nothing; give timeout= where the group is made"
                )
                self._note(NoteKind.HINT, f"options._timeout ({self._where(node)})", text)

    def _set(self, variable: str, value: ast.expr, node: ast.expr | ast.stmt) -> None:
        given = self._names.strings(value)
        self._found.sets.append((variable, given[0] if given else "", self._where(node)))

    # --- what comes of it

    def _given(
        self,
        name: str,
        layer: Layer,
        timeout: ast.expr,
        node: ast.Call,
        *,
        backend: str = "",
        about: str = "",
    ) -> None:
        if isinstance(timeout, ast.Constant) and timeout.value is None:
            self._add(name, layer, self._default_seconds(), node, about=about)
            return
        seconds = self._names.seconds(timeout)
        number = self._names.number(timeout)
        torch_group = layer is Layer.GROUP and not about
        if torch_group and number is not None:
            text = f"timeout={number:g} raises TypeError: torch wants timedelta(seconds={number:g})"
            shown = name if " at " in name else f"{name} ({self._where(node)})"
            self._note(NoteKind.CONFLICT, shown, text)
        value = "" if seconds is not None else ast.unparse(timeout)[:60]
        self._found.knobs.append(
            Knob(name, layer, seconds, value, Origin.SCRIPT, self._where(node), about, backend)
        )

    def _add(
        self, name: str, layer: Layer, seconds: float | None, node: ast.Call, *, about: str = ""
    ) -> None:
        self._found.knobs.append(
            Knob(name, layer, seconds, where=self._where(node), about=about or "none given")
        )

    def _note(self, kind: NoteKind, knob: str, text: str) -> None:
        self._found.notes.append(KnobNote(kind, (knob,), text, "torch/distributed, 2.13"))


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in node.keywords if k.arg == name), None)


def _default_of(backends: list[str]) -> float:
    return DEFAULT_NCCL if backends == ["nccl"] else DEFAULT
