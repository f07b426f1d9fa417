"""What a rank was doing, from bars and well-known lines."""

import pytest

from unstuck.model.logs import LogFact
from unstuck.observe.logs.find.phases import is_frame, of, of_code


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


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("    with zero_first(is_main_process()):", LogFact.PREPARING),
        ("    with torch_distributed_zero_first(LOCAL_RANK):", LogFact.PREPARING),
        ("    with self.args.main_process_first(desc='map'):", LogFact.PREPARING),
        ('  File "/job/train.py", line 745, in save_checkpoint', LogFact.SAVING),
        ('  File "/job/trainer.py", line 3, in evaluate', LogFact.EVALUATING),
        ("    out = self.model.generate(**batch)", LogFact.GENERATING),
        (
            '  File "/lib/torch/distributed/utils.py", line 281, '
            "in _verify_param_shape_across_processes",
            LogFact.SETTING_UP,
        ),
    ],
)
def test_a_traceback_shows_where_a_rank_stood(line: str, fact: LogFact):
    assert of_code(line) == {fact}


@pytest.mark.parametrize(
    "line",
    [
        '  File "/job/evaluate/generate.py", line 3, in train',
        '  File "/job/trainer.py", line 3, in _maybe_log_save_evaluate',
        "    loss.backward()",
    ],
)
def test_a_files_name_or_a_longer_name_shows_nothing(line: str):
    assert of_code(line) == frozenset()


def test_a_frame_is_told_from_talk_about_files():
    assert is_frame('  File "/job/train.py", line 7, in main')
    assert not is_frame('could not open File "/job/train.py"')
