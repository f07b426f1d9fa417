"""What the names of a script stand for, as far as that can be told without running it."""

import ast
import operator
from collections.abc import Callable

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
}
_DELTA = {"weeks": 604800.0, "days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0,
          "milliseconds": 0.001, "microseconds": 1e-6}  # fmt: skip
_DELTA_ORDER = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
_DEEPEST = 8


class Names:
    """The imports of a module, and its names that are assigned exactly once."""

    def __init__(self, tree: ast.Module) -> None:
        self.modules: list[str] = []
        """Everything it imports, by dotted name."""
        self._imported: dict[str, str] = {}
        self._assigned: dict[str, ast.expr | None] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._note_import(node)
            elif isinstance(node, ast.ImportFrom):
                self._note_import_from(node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._note_assignment(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._note_assignment(node.target, node.value)

    def _note_import(self, node: ast.Import) -> None:
        for one in node.names:
            self.modules.append(one.name)
            local = one.asname or one.name.partition(".")[0]
            self._imported[local] = one.name if one.asname else local

    def _note_import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if module:
            self.modules.append(module)
        for one in node.names:
            full = f"{module}.{one.name}" if module else one.name
            self.modules.append(full)
            self._imported[one.asname or one.name] = full

    def _note_assignment(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            again = target.id in self._assigned
            self._assigned[target.id] = None if again else value

    def dotted(self, node: ast.expr) -> str:
        """Return the full name that a name or attribute stands for; empty for anything else."""
        if isinstance(node, ast.Name):
            return self._imported.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def strings(self, node: ast.expr, depth: int = 0) -> list[str]:
        """Return the strings that an expression can be, of both branches of a condition."""
        if isinstance(node, ast.Constant):
            return [str(node.value)] if isinstance(node.value, str | int | float) else []
        if isinstance(node, ast.IfExp):
            return self.strings(node.body, depth) + self.strings(node.orelse, depth)
        if isinstance(node, ast.Name) and depth < _DEEPEST:
            value = self._assigned.get(node.id)
            return self.strings(value, depth + 1) if value is not None else []
        return []

    def number(self, node: ast.expr, depth: int = 0) -> float | None:
        """Return the value of a plain number, also by arithmetic or by a name."""
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
            return None
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left, right = self.number(node.left, depth), self.number(node.right, depth)
            if left is None or right is None or (isinstance(node.op, ast.Div) and not right):
                return None
            return _ARITHMETIC[type(node.op)](left, right)
        if isinstance(node, ast.Name) and depth < _DEEPEST:
            value = self._assigned.get(node.id)
            return self.number(value, depth + 1) if value is not None else None
        return None

    def seconds(self, node: ast.expr, depth: int = 0) -> float | None:
        """Return the seconds of a number or a timedelta; None where only running would tell."""
        if (plain := self.number(node)) is not None:
            return plain
        if isinstance(node, ast.Call) and self.dotted(node.func).endswith("timedelta"):
            return self._delta(node)
        if isinstance(node, ast.Name) and depth < _DEEPEST:
            value = self._assigned.get(node.id)
            return self.seconds(value, depth + 1) if value is not None else None
        return None

    def _delta(self, node: ast.Call) -> float | None:
        total = 0.0
        given = [*zip(_DELTA_ORDER, node.args, strict=False)]
        given += [(k.arg or "", k.value) for k in node.keywords]
        for unit, value in given:
            number = self.number(value)
            if number is None or unit not in _DELTA:
                return None
            total += number * _DELTA[unit]
        return total
