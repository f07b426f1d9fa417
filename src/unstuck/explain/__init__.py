"""Put verdicts in words: advice, the knowledge base, reports.

The package is callable: `unstuck.explain(text)` explains a log. Nothing below it is imported
before that, so a training script that only uses `unstuck.step` does not pay for it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from unstuck.explain.explanation import Explanation


class _Callable(ModuleType):
    """A package that is also a function."""

    def __call__(self, text: str | bytes, *, lang: str = "en") -> "Explanation":
        """Say what went wrong in a log.

        Example:
            unstuck.explain(Path("train.log").read_text()).verdict
        """
        # Imported by name: a pipeline is a layer above the stages that it connects.
        logs = import_module("unstuck.pipelines.logs")
        return cast("Explanation", logs.explain_text(text, lang=lang))


sys.modules[__name__].__class__ = _Callable
