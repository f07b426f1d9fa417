"""A few random inputs for every reader in each run of the tests; `scripts/fuzz` has many."""

from pathlib import Path
from random import Random

import pytest

from targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
ROUNDS = {"log": 3, "record": 10, "stored": 10}


@pytest.mark.parametrize("name", TARGETS)
def test_random_input_gives_an_answer_or_an_error_of_its_own_kind(name: str) -> None:
    for seed in range(ROUNDS.get(name, 40)):
        TARGETS[name](Random(seed))


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_once_stays_mended(name: str) -> None:
    file = CORPUS / name
    for seed in file.read_text().split() if file.exists() else ():
        TARGETS[name](Random(int(seed)))
