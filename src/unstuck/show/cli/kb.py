"""`unstuck kb`: read, search, check, import, export and draft knowledge-base records."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from unstuck.errors import UsageError, WorldError
from unstuck.explain.kb.load import KnowledgeBase, load
from unstuck.explain.kb.schema import Record, Role, Tier, say
from unstuck.show.cli.options import (
    FOUND,
    NOTHING,
    json_option,
    kb_option,
    lang_option,
    print_json,
)


@click.group()
def kb() -> None:
    """Read, search and check the knowledge base of failure messages.

    To add records of your own, put them at DIR/<domain>/<slug>.toml and pass --kb DIR, list
    the directory in UNSTUCK_KB (separated as in PATH), or install a plug-in that has some.
    """


@kb.command("list")
@click.option(
    "--tier", type=click.Choice([t.value for t in Tier]), help="Only records verified this well."
)
@click.option(
    "--role", type=click.Choice([r.value for r in Role]), help="Only records with this role."
)
@click.option("--domain", help="Only records of this domain, such as nccl.")
@kb_option
@lang_option
@json_option
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
@kb_option
@lang_option
@json_option
def show(record_id: str, extra: tuple[Path, ...], lang: str, as_json: bool) -> None:
    """Show what is known about one message.

    ID is as printed by `unstuck kb list`; its last part is enough if it is unique.
    """
    base = load(extra)
    record = base.get(record_id)
    if as_json:
        print_json(record)
        return
    from unstuck.explain.report.record_text import render
    from unstuck.explain.report.screen import screen

    width, colour = screen(sys.stdout)
    sys.stdout.write(render(record, base, lang, width=width, colour=colour))


@kb.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=10, help="Show at most this many.")
@kb_option
@lang_option
@json_option
def search(
    words: tuple[str, ...], limit: int, extra: tuple[Path, ...], lang: str, as_json: bool
) -> int:
    """Search by words or by a whole message.

    Words may be English or Chinese. Exits with 1 if nothing was found.
    """
    found = load(extra).search(words, limit)
    _print_list(found, lang, as_json=as_json)
    if not found and not as_json:
        click.echo("no record matches; start one with `unstuck kb draft`", err=True)
    return NOTHING if found else FOUND


@kb.command()
@click.argument("directories", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@json_option
def check(directories: tuple[Path, ...], as_json: bool) -> int:
    """Check records: the built-in ones, or those in DIR.

    Exits with 1 if there are problems.
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
        print_json({"problems": problems, "summary": _summary(found.records)})
    else:
        for problem in sorted(problems, key=str):
            click.echo(str(problem))
        click.echo(_summary_line(found.records, len(problems)))
    return FOUND if problems else NOTHING


@kb.command()
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--format",
    "shape",
    type=click.Choice(["site", "record-json"]),
    default="site",
    show_default=True,
    help="Pages and one JSON file, or one JSON object per record.",
)
@kb_option
def export(directory: Path, shape: str, extra: tuple[Path, ...]) -> None:
    """Write all records as web pages and one JSON file, or as JSON objects.

    The pages need neither network nor server: open DIR/index.html. With --format record-json,
    DIR/<domain>/<slug>.json has the shape that `unstuck kb import` reads.
    """
    base = load(extra)
    if shape == "record-json":
        _write_json(base, directory)
        click.echo(f"{len(base.records)} records: {directory}")
        return
    from unstuck.explain.report.record_pages import export as write

    write(base, directory)
    click.echo(f"{len(base.records)} records: {directory / 'index.html'}")


@kb.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write DIR/<domain>/<slug>.toml. [default: print the record]",
)
def import_(file: Path, into: Path | None) -> None:
    """Turn records in JSON (one object, or a list) into TOML records.

    \b
    unstuck kb import barrier-timeout.json --into my
    unstuck kb check my                     # what is still missing
    unstuck explain --kb my train.log

    Nothing is lost: `unstuck kb export --format record-json` gives the same objects back.
    """
    from unstuck.explain.kb.record_json import from_json
    from unstuck.explain.kb.record_toml import to_toml

    records = [from_json(one) for one in _objects(file)]
    if into is None and len(records) != 1:
        raise UsageError(f"{file} has {len(records)} records", hint="give --into DIR")
    if into is None:
        sys.stdout.write(to_toml(records[0]))
        return
    paths = [into / f"{record.id}.toml" for record in records]
    for path in paths:
        if path.exists():
            raise UsageError(f"{path} exists already", hint="remove it, or choose another --into")
    for record, path in zip(records, paths, strict=True):
        _write(path, to_toml(record))
    click.echo(f"{len(records)} record{'' if len(records) == 1 else 's'}: {into}")


def _objects(file: Path) -> list[Any]:
    try:
        found: Any = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from error
    return cast("list[Any]", found) if isinstance(found, list) else [found]


def _write_json(base: KnowledgeBase, directory: Path) -> None:
    from unstuck.explain.kb.record_json import to_json

    for record in base.records.values():
        text = json.dumps(to_json(record), ensure_ascii=False, indent=2)
        _write(directory / f"{record.id}.json", f"{text}\n")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorldError(f"cannot write to {path}: {error.strerror}") from error


@kb.command()
@click.option("--line", help="The line. [default: the first line of stdin]")
@click.option("--id", "record_id", help="Id of the new record: <domain>/<slug>.")
def draft(line: str | None, record_id: str | None) -> None:
    """Turn an unknown line into the draft of a record.

    \b
    grep -h 'weird failure' logs/* | head -1 | unstuck kb draft > my/nccl/weird.toml
    unstuck kb check my

    The pattern already allows for numbers, paths and names that vary; the fields marked
    `missing` are for you to fill in.
    """
    from unstuck.explain.kb.draft import draft as make

    text = line or ""
    if line is None and not sys.stdin.isatty():
        text = sys.stdin.buffer.read(1 << 20).decode(errors="replace")
    if not text.strip():
        raise UsageError("there is no line to draft from", hint="give --line, or pipe one in")
    sys.stdout.write(make(text, record_id or ""))


def _print_list(found: Sequence[Record], lang: str, *, as_json: bool) -> None:
    if as_json:
        print_json([_brief(record) for record in found])
        return
    width = max((len(record.id) for record in found), default=0)
    for record in found:
        title = say(record.title, lang)
        click.echo(f"{record.id:<{width}}  {record.role:<10}  {record.tier:<10}  {title}")


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
    found = "no problems" if problems == 0 else f"{problems} problem{'s' if problems > 1 else ''}"
    count = f"{len(records)} record{'' if len(records) == 1 else 's'}"
    return f"{count} ({tiers or 'none'}); {lines}: {found}"
