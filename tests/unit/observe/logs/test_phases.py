"""What a rank was doing, from bars and well-known lines."""

import pytest

from unstuck.model.log import LogFact
from unstuck.observe.logs.phases import of


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (
            "Running tokenizer on dataset:  36%|##  | 24/67 [23:16<30:00, 41.87s/it]",
            LogFact.PREPARING,
        ),
        (" 35%|##  | 73811210851/208140108456 [30:01<57:14, 39115047.81MB/s]", LogFact.PREPARING),
        (" 3%|#  | 270/9847 [05:50<3:17:42,  1.24s/it]", LogFact.TRAINING),
        ("Loading checkpoint shards:  50%|#  | 1/2 [00:10<00:10, 9.9s/it]", LogFact.LOADING),
        ("Saving model checkpoint to /out/checkpoint-500", LogFact.SAVING),
        ("***** Running Evaluation *****", LogFact.EVALUATING),
        ("Capturing CUDA graph shapes", LogFact.COMPILING),
        ("{'train_runtime': 12.3}", LogFact.AT_END),
        ("step 17 loss 2.31", LogFact.TRAINING),
    ],
)
def test_a_line_says_what_was_going_on(line: str, fact: LogFact):
    assert of(line) == {fact}


@pytest.mark.parametrize(
    "line",
    [
        "Map: 100%|####| 67/67 [30:00<00:00, 41.87s/it]",
        "RuntimeError: Error while saving the model to /out",
        '  File "/job/save_checkpoint.py", line 3, in save',
        "ordinary text",
        "",
    ],
)
def test_what_is_over_or_only_spoken_of_is_no_phase(line: str):
    assert of(line) == frozenset()


def test_generating_during_an_evaluation_is_both():
    bar = "Generation Evaluation: 100%|##9| 497/499 [18:29:58<05:20, 160.10s/it][E x.cpp:475]"
    assert of(bar) == {LogFact.GENERATING, LogFact.EVALUATING}
