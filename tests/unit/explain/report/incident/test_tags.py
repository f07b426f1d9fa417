"""Elements in which every text is harmless."""

from unstuck.explain.report.incident.tags import Html, block, join, tag


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", "<b>", tag("i", "x")) == "<p>&lt;b&gt;<i>x</i></p>"


def test_attributes_cannot_be_left():
    assert tag("a", title='"><script>') == '<a title="&quot;&gt;&lt;script&gt;"></a>'
    assert tag("input", disabled=True, value=None) == "<input disabled></input>"


def test_control_characters_are_left_out_and_lines_of_a_block_are_kept():
    assert join("a\x1b[1m\u202eb") == "a[1mb"
    assert block("a\n\tb\x07") == "<pre>a\n\tb</pre>"


def test_spaces_around_a_text_are_kept():
    assert join("a", " in b ", Html("<i/>")) == "a in b <i/>"
