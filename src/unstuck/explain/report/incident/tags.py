"""HTML and SVG elements in which every text is escaped and harmless.

Names, code and messages come from logs and hosts that nobody can vouch for: nothing in them may
become markup, and control and direction characters are left out.
"""

import re
from html import escape

from unstuck.console import clean

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_EMPTY = frozenset({"br", "hr", "meta", "link", "rect", "path", "circle", "line"})


class Html(str):
    """Markup that is safe as it is; any other string is text."""

    __slots__ = ()


def tag(name: str, /, *children: str | Html | None, **attributes: object) -> Html:
    """Make an element. Attributes that are None or False are left out; `class_` is `class`.

    Example:
        >>> tag("p", "1 < 2", class_="note")
        '<p class="note">1 &lt; 2</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY and not children:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: str | Html | None) -> Html:
    """Put elements and texts one after the other."""
    return Html("".join(_safe(child) for child in children if child is not None))


def block(text: str, **attributes: object) -> Html:
    """Show text of several lines as it is."""
    return tag("pre", Html(escape(_CONTROL.sub("", text))), **attributes)


def _safe(child: str | Html) -> str:
    return child if isinstance(child, Html) else escape(clean_text(child))


def clean_text(text: str) -> str:
    """Return a text as one line without control characters, keeping spaces at its ends."""
    before, after = text[:1] == " ", text[-1:] == " " and len(text) > 1
    return f"{' ' * before}{clean(text)}{' ' * after}"


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(clean(str(value)), quote=True)}"'
