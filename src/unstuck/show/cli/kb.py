"""`unstuck kb`: read, search, check, export and draft knowledge-base records."""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from unstuck.errors import UsageError
from unstuck.explain.kb.load import load
from unstuck.explain.kb.schema import Record, Role, Tier
from unstuck.explain.kb.words import LANGUAGES, say

CLEAN = 0
PROBLEMS = 1

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_lang = click.option(
    "--lang", type=click.Choice(LANGUAGES), default="en", help="Language of the texts."
)
_extra = click.option(
    "--kb",
    "extra",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A directory of your own records; may be given several times.",
)


@click.group()
def kb() -> None:
    """Read, search and check the knowledge base of failure messages.

    Records of your own lie in a directory, DIR/<domain>/<slug>.toml; name it with --kb or
    in UNSTUCK_KB (a path list), or install a plug-in that brings some.
    """


@kb.command("list")
@click.option(
    "--tier", type=click.Choice([t.value for t in Tier]), help="Only those known this well."
)
@click.option("--role", type=click.Choice([r.value for r in Role]), help="Only those of this role.")
@click.option("--domain", help="Only those of this domain, for example nccl.")
@_extra
@_lang
@_json
def list_(
    tier: str | None,
    role: str | None,
    domain: str | None,
    extra: tuple[Path, ...],
    lang: str,
    as_json: bool,
) -> None:
    """List the records."""
    found = [
        record
        for record in load(extra).records.values()
        if (tier is None or record.tier == tier)
        and (role is None or record.role == role)
        and (domain is None or record.domain == domain)
    ]
    _print_list(found, lang, as_json=as_json)
    if not as_json:
        click.echo(f"{len(found)} record{'' if len(found) == 1 else 's'}", err=True)


@kb.command()
@click.argument("record_id", metavar="ID")
@_extra
@_lang
@_json
def show(record_id: str, extra: tuple[Path, ...], lang: str, as_json: bool) -> None:
    """Show what is known about one message.

    ID is that of the list; its last part is enough where only one record ends so.
    """
    base = load(extra)
    record = base.get(record_id)
    if as_json:
        _print_json(record)
        return
    from unstuck.explain.report import record_text

    sys.stdout.write(record_text.render_for(sys.stdout, record, base, lang))


@kb.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=10, help="At most so many.")
@_extra
@_lang
@_json
def search(
    words: tuple[str, ...], limit: int, extra: tuple[Path, ...], lang: str, as_json: bool
) -> int:
    """Search records by words or by a whole message, in English or Chinese.

    Exits with 1 when nothing was found.
    """
    found = load(extra).search(words, limit)
    _print_list(found, lang, as_json=as_json)
    if not found and not as_json:
        click.echo("no record fits; `unstuck kb draft` starts one", err=True)
    return CLEAN if found else PROBLEMS


@kb.command()
@click.argument("directories", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@_json
def check(directories: tuple[Path, ...], as_json: bool) -> int:
    """Check records strictly: the built-in ones, or those in these directories.

    Exits with 1 when there are problems.
    """
    from unstuck.explain.kb import check as checker
    from unstuck.explain.kb import read

    for path in directories:
        if not path.is_dir():
            raise UsageError(f"there is no directory of records at {path}")
    found = checker.gather(directories or [read.BUILT_IN])
    among = load().records.values() if directories else ()
    problems = [*found.problems, *checker.check(found.records, found.origins, among=among)]
    if as_json:
        _print_json({"problems": problems, "summary": _summary(found.records)})
    else:
        for problem in sorted(problems, key=str):
            click.echo(str(problem))
        click.echo(_summary_line(found.records, len(problems)))
    return PROBLEMS if problems else CLEAN


@kb.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@_extra
def export(directory: Path, extra: tuple[Path, ...]) -> None:
    """Write all records as one JSON file and as pages for a browser.

    The pages need no network and no server: open DIR/index.html.
    """
    from unstuck.explain.report.record_pages import export as write

    base = load(extra)
    write(base, directory)
    click.echo(f"{len(base.records)} records: {directory / 'index.html'}")


@kb.command()
@click.option("--line", help="The line; without it, it is read from stdin.")
@click.option("--id", "record_id", help="Id of the new record, <domain>/<slug>.")
def draft(line: str | None, record_id: str | None) -> None:
    """Turn a line that no record knows into the skeleton of one.

    \b
    grep -h 'weird failure' logs/* | head -1 | unstuck kb draft > my/nccl/weird.toml
    unstuck kb check my

    What varies is already templated; the fields that are left empty are yours to fill in.
    """
    from unstuck.explain.kb.draft import draft as make

    text = line if line is not None else _first_line()
    if not text.strip():
        raise UsageError("there is no line to draft from", hint="give --line or pipe one in")
    sys.stdout.write(make(text, record_id or ""))


def _first_line() -> str:
    if sys.stdin.isatty():
        return ""
    data = sys.stdin.buffer.read(1 << 20).decode(errors="replace")
    return next((line for line in data.splitlines() if line.strip()), "")


def _print_list(found: Sequence[Record], lang: str, *, as_json: bool) -> None:
    if as_json:
        _print_json([_brief(record) for record in found])
        return
    from rich.cells import cell_len

    columns = [(r.id, str(r.role), str(r.tier), say(r.title, lang)) for r in found]
    widths = [max((cell_len(row[n]) for row in columns), default=0) for n in range(3)]
    for row in columns:
        cells = (text.ljust(width) for text, width in zip(row[:3], widths, strict=True))
        click.echo("  ".join((*cells, row[3])))


def _brief(record: Record) -> dict[str, Any]:
    names = ("id", "title", "signature", "role", "tier", "domain", "category")
    return {name: getattr(record, name) for name in names}


def _summary(records: Sequence[Record]) -> dict[str, Any]:
    tiers = Counter(record.tier for record in records)
    return {
        "records": len(records),
        "tiers": {tier: tiers[tier] for tier in Tier},
        "must_match": sum(len(record.must_match) for record in records),
        "must_not_match": sum(len(record.must_not_match) for record in records),
    }


def _summary_line(records: Sequence[Record], problems: int) -> str:
    facts = _summary(records)
    tiers = ", ".join(f"{count} {tier}" for tier, count in facts["tiers"].items() if count)
    lines = f"{facts['must_match']} lines that must match, {facts['must_not_match']} that must not"
    found = "no problem" if problems == 0 else f"{problems} problem{'s' if problems > 1 else ''}"
    count = f"{len(records)} record{'' if len(records) == 1 else 's'}"
    return f"{count} ({tiers or 'none'}); {lines}: {found}"


def _print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
