"""Put verdicts in words: advice, the knowledge base, reports.

The package can be called: `unstuck.explain(text)` explains a log. Nothing below it is imported
before that, so a training script that only uses `unstuck.step` pays for none of it.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstuck.explain.logs import Explanation


class _Callable(ModuleType):
    """A package that is a function, too."""

    def __call__(self, text: str | bytes, *, lang: str = "en") -> "Explanation":
        """Say what went wrong in a log.

        Example:
            unstuck.explain(Path("train.log").read_text()).verdict
        """
        from unstuck.explain.logs import explain_text

        return explain_text(text, lang=lang)


sys.modules[__name__].__class__ = _Callable
