"""All records as static pages: an index, a page per record, one JSON file. No network needed."""

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template

import msgspec

from unstuck._version import __version__
from unstuck.errors import WorldError
from unstuck.explain.kb import words
from unstuck.explain.kb.load import KnowledgeBase
from unstuck.explain.kb.schema import Record, Text, say
from unstuck.explain.kb.words import LANGUAGES
from unstuck.explain.report.record import Part, about, address, named, outline

SCHEMA = "unstuck.records/1"
_QUOTED = re.compile(r"`([^`]+)`")
_ASSETS = Path(__file__).parent / "assets"

_COUNT = Text("{} records", "{} 条记录")
_BACK = Text("All records", "全部记录")
_FIND = Text("Type words, or paste an error message", "输入关键词，或粘贴报错信息")
_INTRO = Text(
    "Failure messages of distributed PyTorch: what they mean, how to tell their causes apart, "
    "what helps and what does not.",
    "分布式 PyTorch 的报错信息：含义、如何区分原因、哪些做法有效、哪些无效。",
)


def export(kb: KnowledgeBase, directory: Path) -> None:
    """Write records.json, index.html and <domain>/<slug>.html below a directory.

    Raises:
        WorldError: the directory cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "records.json").write_bytes(bundle(kb))
        (directory / "index.html").write_text(index_page(kb), encoding="utf-8")
        for record in kb.records.values():
            path = directory / f"{record.id}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(record_page(record, kb), encoding="utf-8")
    except OSError as error:
        raise WorldError(f"cannot write to {error.filename}: {error.strerror}") from error


def bundle(kb: KnowledgeBase) -> bytes:
    """Return all records as one JSON object, the same bytes for the same records."""
    records = [kb.records[key] for key in sorted(kb.records)]
    plain = {"schema": SCHEMA, "unstuck": __version__, "records": records}
    return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"


def index_page(kb: KnowledgeBase) -> str:
    """Return the list of all records, with a box to search in."""
    rows = "\n".join(_row(kb.records[key]) for key in sorted(kb.records))
    body = f"""<header>
<h1>unstuck</h1>
<p class="lead">{_both(_INTRO)}</p>
<input id="find" type="search" autofocus aria-label="{escape(_FIND.en)}"
 placeholder="{escape(_FIND.en)}" data-zh="{escape(_FIND.zh)}">
<p class="dim" id="count">{_both(_COUNT).replace("{}", f"<b>{len(kb.records)}</b>")}</p>
</header>
<ul class="index">
{rows}
</ul>"""
    return _page("unstuck", body)


def record_page(record: Record, kb: KnowledgeBase) -> str:
    """Return the page of one record, in both languages."""
    parts: list[str] = []
    for lang in LANGUAGES:
        sections = "\n".join(
            f"<section><h2>{escape(section.title)}</h2>\n{_parts(section.parts)}</section>"
            for section in outline(record, kb, lang)
        )
        facts = " · ".join(escape(fact) for fact in about(record, lang))
        title = escape(say(record.title, lang))
        parts.append(
            f'<div lang="{lang}">\n<h1>{title}</h1>\n<p class="dim">{facts}</p>\n{sections}\n</div>'
        )
    crumbs = (
        f'<p class="crumbs"><a href="../index.html">{_both(_BACK)}</a> / {escape(record.id)}</p>'
    )
    return _page(f"{record.title.en} · unstuck", "\n".join((crumbs, *parts)))


def _row(record: Record) -> str:
    searched = " ".join(
        (record.id, record.signature, record.title.en, record.title.zh, *record.aliases)
    )
    tags = " ".join((*record.tags, record.category, record.error_code))
    return (
        f'<li data-text="{escape(f"{searched} {tags}".lower())}">'
        f'<a href="{escape(record.id)}.html"><b>{_both(record.title)}</b>'
        f"<code>{escape(record.signature)}</code></a>"
        f'<span class="dim">{escape(record.id)}</span> '
        f'<span class="tag {record.role}">{_both(words.ROLES[record.role])}</span> '
        f'<span class="tag">{_both(words.TIERS[record.tier])}</span></li>'
    )


def _parts(parts: Iterable[Part]) -> str:
    made: list[str] = []
    entries: list[str] = []
    for part in parts:
        if part.is_entry:
            entries.append(_entry(part))
        elif part.code:
            made.append(f"<pre>{escape(part.code)}</pre>")
        else:
            made.append(f"<p>{_marked(part.text)}</p>")
    if entries:
        made.append("<ul>\n" + "\n".join(entries) + "\n</ul>")
    return "\n".join(made)


def _entry(part: Part) -> str:
    name = _marked(part.head)
    if not name:
        name = ", ".join(f'<a href="../{escape(r)}.html">{escape(r)}</a>' for r in part.records)
    links = [_link(link) for link in part.links]
    if not name:
        return f"<li>{', '.join(links)}</li>"
    notes = " · ".join((*(escape(note) for note in part.notes), *links))
    text = f"<p>{_marked(part.text)}</p>" if part.text else ""
    return f"<li><b>{name}</b>{text}{f'<p class=dim>{notes}</p>' if notes else ''}</li>"


def _link(source: str) -> str:
    target = address(source)
    shown = escape(named(source))
    return f'<a href="{escape(target)}">{shown}</a>' if target else shown


def _marked(text: str) -> str:
    return _QUOTED.sub(r"<code>\1</code>", escape(text))


def _both(text: Text) -> str:
    return "".join(f'<span lang="{lang}">{escape(say(text, lang))}</span>' for lang in LANGUAGES)


def _page(title: str, body: str) -> str:
    page, style, script = (
        (_ASSETS / name).read_text(encoding="utf-8")
        for name in ("page.html", "records.css", "records.js")
    )
    return Template(page).substitute(title=escape(title), body=body, style=style, script=script)
