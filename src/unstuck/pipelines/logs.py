"""From the logs of a job that nobody watched to an explanation: read, match, diagnose, advise.

explain(["logs/"])          files, directories, `-` for standard input
explain_text("[rank3]: …")  a log that is in memory
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from unstuck.diagnose.logs.verdict import diagnose
from unstuck.explain.explanation import Explanation, explanation
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.recall import knowledge
from unstuck.observe.logs.files.sources import find
from unstuck.observe.logs.reader import Reader, Reading


def explain(
    paths: Sequence[str],
    *,
    lang: str = "en",
    since: float | None = None,
    progress: Callable[[int], None] = lambda _size: None,
    extra: Sequence[Path] = (),
) -> Explanation:
    """Explain the logs at these paths.

    Args:
        paths: files, directories, or `-` for standard input.
        lang: language of the texts, `en` or `zh`.
        since: Unix time; older lines are left out.
        progress: called with the number of bytes read since the last call.
        extra: directories of records to use in addition to the built-in ones.

    Example:
        explain(["slurm-4711.out"]).verdict
    """
    kb, matcher = knowledge(tuple(extra))
    reader = Reader(matcher.literals, matcher.confirm, since=since, progress=progress)
    return _explained(reader.read(find(paths)), kb, lang)


def explain_text(text: str | bytes, *, lang: str = "en", name: str = "log") -> Explanation:
    """Explain a log that is in memory."""
    kb, matcher = knowledge(())
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    reading = Reader(matcher.literals, matcher.confirm).read_bytes(data, name)
    return _explained(reading, kb, lang)


def _explained(reading: Reading, kb: KnowledgeBase, lang: str) -> Explanation:
    verdict = diagnose(reading.logs, kb.for_logs(lang), lang)
    return explanation(reading, verdict, kb, lang)
