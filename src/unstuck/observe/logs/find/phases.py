"""What a rank was doing, from its progress bars and the lines of well-known libraries.

A bar that has not reached its end is the best evidence of life a plain log has.
"""

import re

from unstuck.model.logs import LogFact

_BAR = re.compile(
    r"(?P<label>[^|\r\n]{0,200}?):?\s*(?P<percent>\d{1,3})%\|[^|]*\|\s*(?P<done>[\d.]+[kMGT]?)/"
    r"(?P<all>[\d.]+[kMGT]?)\s*\[(?P<elapsed>[\d:]+|\d+ days?, [\d:]+)<(?P<left>[\d:?]+)"
    r"(?:,\s*(?P<speed>[^\]]*))?"
)
_BYTES = re.compile(r"[kMGT]?i?B/s|examples/s|files?/s|tokens/s|docs?/s|rows/s|lines?/s")
_STEP = re.compile(
    r"\b(?:step|iter(?:ation)?|epoch|global_step)\b[\s:=\[]*\d+.{0,80}?\bloss\b|"
    r"\bloss\b[\"']?\s*[:=]\s*[\d.]+.{0,120}?\b(?:step|epoch|lr|learning_rate)\b",
    re.IGNORECASE,
)

_WORDS = {
    fact: re.compile(words, re.IGNORECASE)
    for fact, words in {
        LogFact.GENERATING: r"\bgenerat(?:ing|ion)\b|\brollout|\bsampling responses",
        LogFact.EVALUATING: (
            r"\bevaluat(?:ing|ion)\b|\bvalidat(?:ing|ion)\b|\bRunning (?:Evaluation|Prediction)"
            r"|^\s*(?:eval|val|test)\b.{0,40}\d+%\|"
        ),
        LogFact.SAVING: (
            r"\bsav(?:ing|e)\b.{0,60}?(?:checkpoint|model|state|weights|optimizer|tokenizer|shard|"
            r"to |/)|checkpoint.{0,30}\bsav(?:ing|ed)\b|save_(?:checkpoint|state|pretrained|model)"
            r"|consolidat(?:e|ing).{0,40}(?:state|weights|checkpoint)"
        ),
        LogFact.PREPARING: (
            r"\btokeniz|\btokenis|\bpreparing\b|\bpreprocess|\bgrouping texts|\bpacking\b"
            r"|\bgenerating \w+ split|\bfilter(?:ing)? |^\s*map\b|\bmapping\b|\bindexing\b"
            r"|\bdownloading\b|\bconverting format|\bbuilding (?:dataset|index|.{0,20}cache)"
            r"|\bcaching\b|\bextracting\b|\bresolving data files|\bscanning\b|\bdata ?prep"
        ),
        LogFact.LOADING: (
            r"loading (?:checkpoint|safetensors|model|weights|pretrained|shards?|pipeline)"
            r"|load weight|loading .{0,40}shards?"
        ),
        LogFact.COMPILING: (
            r"torch\.compile|\binductor\b|\btorch\._dynamo\b|\bautotun|capturing cuda ?graph"
            r"|\bnvcc\b|ninja: |building extension module|jit compil|compiling"
        ),
        LogFact.AT_END: (
            r"training (?:is )?(?:complete|finished|done)|finished training|train(?:ing)? end"
            r"|max_(?:epochs|steps)=?\S* reached|fit.{0,12}(?:stopped|finished|complete)"
            r"|\btrain_runtime\b|end of epoch|epoch \d+ (?:done|finished|completed|ended)"
        ),
    }.items()
}

_FRAME = re.compile(r'^\s*File "[^"]+", line \d+, in (?P<function>\w+)')
_CODE = {
    fact: re.compile(words)
    for fact, words in {
        LogFact.PREPARING: r"\bwith\b.*\b\w*(?:zero|main_process|main|master|rank0)_first\(",
        LogFact.SETTING_UP: (
            r"\b(?:init_process_group|new_group|_new_process_group_helper|init_distributed"
            r"|_verify_param_shape_across_processes|_sync_module_states|init_device)\b"
        ),
        LogFact.SAVING: r"\b_?save_(?:checkpoint|state|pretrained|model|to_checkpoint)\b",
        LogFact.EVALUATING: r"\b(?:evaluate|run_validation|validate|evaluation_loop)\b",
        LogFact.GENERATING: r"\b(?:generate|generate_sequences|generate_completions)\b",
    }.items()
}


def is_frame(text: str) -> bool:
    """Tell whether a clean line is a frame of a Python traceback."""
    return 'File "' in text and bool(_FRAME.match(text))


def of_code(text: str) -> frozenset[LogFact]:
    """Return where a rank was, from a frame of its traceback or the code below the frame.

    Example:
        of_code("with zero_first(is_main_process()):")  # {LogFact.PREPARING}
    """
    frame = _FRAME.match(text) if 'File "' in text else None
    code = frame["function"] if frame else text
    return frozenset(fact for fact, words in _CODE.items() if words.search(code))


def of(text: str) -> frozenset[LogFact]:
    """Return what a clean line says its rank was doing; nothing for most lines.

    Example:
        of("Running tokenizer on dataset:  36%|###  | 24/67 [23:16<30:00, 41.87s/it]")
        # {LogFact.PREPARING}
    """
    bar = _last_bar(text)
    if bar is None:
        return _from_words(text)
    if bar["done"] == bar["all"] or bar["left"] in {"00:00", "0:00"}:
        return frozenset()
    return _from_bar(bar)


def _last_bar(text: str) -> re.Match[str] | None:
    """Return the last bar of a line; `%|` is looked for first because it is cheap."""
    if "%|" not in text:
        return None
    start = max(0, text.rindex("%|") - 200)
    return _BAR.search(text, start) or _BAR.search(text)


def _from_bar(bar: re.Match[str]) -> frozenset[LogFact]:
    label, speed = bar["label"], bar["speed"] or ""
    named = {fact for fact, words in _WORDS.items() if words.search(f"{label} 0%|")}
    if named:
        return frozenset(named)
    if _BYTES.search(speed):
        return frozenset((LogFact.PREPARING,))
    return frozenset((LogFact.TRAINING,))


def _from_words(text: str) -> frozenset[LogFact]:
    if _STEP.search(text):
        return frozenset((LogFact.TRAINING,))
    if 'File "' in text or "Error" in text or "Warning" in text or "WorkNCCL" in text:
        return frozenset()
    return frozenset(fact for fact, words in _WORDS.items() if words.search(text))
