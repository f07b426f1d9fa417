"""Every fact has its words in every language."""

import pytest

from unstuck.diagnose.logwords import LANGUAGES
from unstuck.model.log import LogFact


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_fact_is_without_words(lang: str):
    assert set(LANGUAGES[lang].facts) == set(LogFact)


def test_chinese_is_chinese():
    for text in (*LANGUAGES["zh"].facts.values(), *LANGUAGES["zh"].doing.values()):
        assert any("\u4e00" <= sign <= "\u9fff" for sign in text), text
