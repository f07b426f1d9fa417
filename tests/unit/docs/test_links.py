"""Links, anchors and paths in the pages lead somewhere."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SITE = {*PAGES, ROOT / "LICENSE", *(ROOT / "docs").rglob("*.svg"), *(ROOT / "docs").rglob("*.png")}
"""What scripts/docs puts on the site: a link to anything else would be dead there."""
PREFIXES = ("src/", "tests/", "scripts/", "bench/", "examples/", "docs/", ".github/")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def slug(heading: str) -> str:
    """Return the anchor that GitHub, and with our settings the site, gives to a heading.

    Example:
        >>> slug("What `--recover` does")
        'what---recover-does'
    """
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    headings = re.findall(r"^#{1,6} (.+)$", without_code(page.read_text()), flags=re.MULTILINE)
    return frozenset(map(slug, headings))


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if not target.startswith(("http://", "https://", "mailto:")):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_resolve(page: Path):
    for target in links(page):
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        assert aim in SITE, f"{target} is not a page of the site"
        assert not anchor or anchor in anchors(aim), f"{target}: there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_code_exist(page: Path):
    for path in re.findall(r"`([\w./-]+/[\w.-]*)`", without_code(page.read_text())):
        if path.startswith(PREFIXES):
            assert (ROOT / path).exists(), path
        elif path.endswith(".py") and not path.startswith("/"):
            places = [ROOT / "src/unstuck" / path, ROOT / path]
            assert any(place.exists() for place in places), path


def test_every_page_can_be_found_from_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES:
        assert f": {page.relative_to(ROOT)}\n" in listed, f"{page.name} is in no menu"


def test_a_decision_is_listed_on_the_page_of_decisions():
    index = (ROOT / "docs/decisions/README.md").read_text()
    for page in (ROOT / "docs/decisions").glob("0*.md"):
        assert f"]({page.name})" in index, page.name
