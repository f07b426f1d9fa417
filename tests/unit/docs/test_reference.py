"""The reference pages say what the code says, and the guide names everything that exists."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from unstuck.model.verdict import Cause
from unstuck.show.cli.main import cli

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
GUIDE = [page for page in PAGES if page.parent.name != "reference"]


def leaf_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaf_commands(command, (*path, name))
        else:
            yield (*path, name)


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Follow the words down to a command; return it and the words that are left."""
    command: click.Command = cli
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def options_of(command: click.Command) -> set[str]:
    parameters = command.get_params(click.Context(command, help_option_names=["-h", "--help"]))
    return {name for one in parameters for name in (*one.opts, *one.secondary_opts)}


def own_options(command: click.Command, words: list[str]) -> Iterator[str]:
    """Yield the options that the words give to this command, not to what it launches."""
    launches = command is find_command(["run"])[0]
    flags = {
        name
        for one in command.params
        if isinstance(one, click.Option) and one.is_flag
        for name in (*one.opts, *one.secondary_opts)
    }
    rest = iter(words)
    for word in rest:
        if word in {"--", "|", ">", "<", "&&", ";", "#"}:
            return
        if word.startswith("--"):
            yield word.partition("=")[0]
            if launches and word not in flags and "=" not in word:
                next(rest, None)
        elif launches:
            return


def quoted_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every `unstuck …` in code, inline or in a block."""
    inline = re.findall(
        r"(?<!`)`((?:srun )?unstuck [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    )
    fences = re.findall(r"(?ms)^```(?:sh|bash)?\n(.*?)^```", text)
    lines = re.findall(r"(?m)^(?:\$ |srun |until )?(?:\S*/)?unstuck (.+)$", "\n".join(fences))
    for found in [*(one.partition("unstuck ")[2] for one in inline), *lines]:
        yield found.replace("\n", " ").split()


def test_the_generated_pages_are_up_to_date():
    fresh: dict[str, str] = runpy.run_path(str(ROOT / "scripts" / "gen_docs"))["pages"]()
    stored = {page.name: page.read_text() for page in (DOCS / "reference").glob("*.md")}

    assert stored == fresh, "run scripts/gen_docs"


def test_every_cause_has_its_section_and_every_section_its_cause():
    headings = re.findall(r"^### (.+)$", (DOCS / "causes.md").read_text(), flags=re.MULTILINE)

    assert sorted(headings) == sorted(Cause)


@pytest.mark.parametrize("path", list(leaf_commands(cli)), ids=" ".join)
def test_every_command_is_in_the_reference_and_used_in_the_guide(path: tuple[str, ...]):
    name = " ".join(("unstuck", *path))
    guide = re.sub(r"\s+", " ", "\n".join(page.read_text() for page in GUIDE))

    assert f"### {name}\n" in (DOCS / "reference" / "command-line.md").read_text()
    assert name in guide or f"`{path[-1]}`" in guide, f"no page of the guide mentions {name}"


def test_every_option_is_in_the_reference():
    reference = (DOCS / "reference" / "command-line.md").read_text()
    for path in leaf_commands(cli):
        section = reference.split(f"### unstuck {' '.join(path)}\n")[1].split("\n### ")[0]
        for option in options_of(find_command(list(path))[0]):
            if option.startswith("-"):
                assert re.search(rf"`[^`\n]*{re.escape(option)}\b", section), (path, option)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_that_a_page_quotes_exist(page: Path):
    for words in quoted_commands(page.read_text()):
        if words[0].startswith(("-", "<", "[", "COMMAND", "…")):
            continue
        command, rest = find_command(words)
        assert command is not cli, f"there is no command unstuck {words[0]}"
        unknown = set(own_options(command, rest)) - options_of(command)
        assert not unknown, f"unstuck {' '.join(words)}: no option {unknown}"


def test_every_variable_is_documented_and_every_documented_one_is_read():
    used = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"\b_?(UNSTUCK_[A-Z_]+)\b", path.read_text())
    }
    page = (DOCS / "reference" / "configuration.md").read_text()
    listed = set(re.findall(r"(?m)^\| `(UNSTUCK_\w+)`", page))

    assert listed == used


def test_variables_in_the_pages_exist():
    places = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "scripts").iterdir(),
        *(ROOT / "tests").rglob("*.py"),
    ]
    known = set(re.findall(r"UNSTUCK_[A-Z_]+", "\n".join(path.read_text() for path in places)))
    for page in PAGES:
        assert set(re.findall(r"\bUNSTUCK_[A-Z_]+", page.read_text())) <= known, page
