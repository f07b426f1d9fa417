"""Every fact has its words in every language."""

import pytest

from unstuck.diagnose.logs.phrases import LANGUAGES
from unstuck.model.logs import LogFact


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_fact_is_without_words(lang: str):
    assert set(LANGUAGES[lang].facts) == set(LogFact)


def test_chinese_is_chinese():
    for text in LANGUAGES["zh"].facts.values():
        assert any("\u4e00" <= sign <= "\u9fff" for sign in text), text
