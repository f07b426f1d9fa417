"""The live page in a real browser: a real job stalls, and the page says so by itself."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright

from unstuck.lab.job import Job

pytestmark = pytest.mark.system

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield browser.new_page()
        finally:
            browser.close()


def link_of(job: Job) -> str:
    job.wait_watched(60)
    found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", job.stderr.read_text())
    assert found, job.words()
    return found[0]


@pytest.mark.timeout(240)
def test_the_verdict_appears_without_a_reload_and_the_rank_has_the_line(
    job: Callable[..., Job], page: Page
):
    running = job("lock", env={"FAULT_RANK": "2"})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(link_of(running))
    assert "token" not in page.url
    page.wait_for_selector("canvas", timeout=60_000)

    page.wait_for_selector("#verdict", timeout=120_000)

    assert "host-deadlock" in page.inner_text("#verdict")
    assert "lock.py" in page.inner_text("#verdict .line")
    assert page.inner_text("#state") == "stalled"
    page.click("#verdict .line button")
    page.wait_for_selector("#rank pre", timeout=30_000)
    assert "refresh_cache" in page.inner_text("#rank")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.wait_for_selector("#stacks .tree li", timeout=30_000)
    assert "rank 2" in page.inner_text("#stacks")
    assert errors == []
    report = Path(running.run_dir / "incident-1" / "report.html")
    running.interrupt(everybody=True)
    running.wait_exit(60)
    assert "host-deadlock" in report.read_text()
