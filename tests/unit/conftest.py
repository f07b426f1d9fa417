"""Two ranks of a real gloo job under the probe; importing torch is dear, so tests share them."""

from collections.abc import Iterator

import pytest

from bugs import bugs_are_not_survived, bugs_are_survived
from pairs import Pair, started

__all__ = ["bugs_are_not_survived", "bugs_are_survived"]


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with started(tmp_path_factory.mktemp("pair")) as job:
        yield job
