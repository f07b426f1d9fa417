"""What the page asks for, and that nothing else can be had."""

import json
from pathlib import Path

import pytest

from asgi import get
from scenes import one_sleeps, verdict_of
from unstuck.collect import bundle
from unstuck.explain.advice.advice import advise
from unstuck.show.web import application
from unstuck.show.web.application import Application
from unstuck.show.web.feed import Feed
from unstuck.show.web.sources import StoredRun


@pytest.fixture
def app(tmp_path: Path) -> object:
    scene = one_sleeps()
    verdict = advise(verdict_of(scene))
    incident = bundle.write(tmp_path / "run", scene.snapshot(), verdict, about={})
    (incident / "report.html").write_text("the report")
    return Application([Feed(StoredRun(incident))]).app


def test_the_page_and_everything_it_names_is_there(app: object):
    assert get(app, "/").headers["location"] == "/r/0/"
    page = get(app, "/r/0/").body.decode()
    assert "/static/app.js" in page
    for name in application._STATIC:
        assert get(app, f"/static/{name}").status == 200, name
    assert b"--computing" in get(app, "/static/app.css").body


def test_the_page_is_light():
    total = sum(len(application._asset(name).body) for name in application._STATIC)
    assert total < 200_000


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/static/vendor/LICENSE.htm/..",
        "/r/1/",
        "/r/1/events",
        "/r/0/../../etc/passwd",
        "/r/0/incident-2/report.html",
        "/r/0/..%2f..%2fx/report.html",
        "/r/0/incident-1%00/report.html",
        "/r/0/rank/-1",
        "/nothing",
    ],
)
def test_no_path_leads_anywhere_else(app: object, path: str):
    answer = get(app, path)

    assert answer.status == 404
    assert b"Traceback" not in answer.body


def test_one_rank_the_stacks_and_the_picture(app: object):
    rank = json.loads(get(app, "/r/0/rank/2").body)
    assert (rank["doing"], rank["healthy"]) == ("is asleep", 1)
    assert json.loads(get(app, "/r/0/rank/99999").body)["known"] is False
    assert json.loads(get(app, "/r/0/stacks").body)["count"] == 4
    assert b"<svg" in get(app, "/r/0/waiting.svg").body
    assert get(app, "/r/0/markdown").body.startswith(b"**unstuck: busy-elsewhere**")


def test_a_report_may_not_run_anything(app: object):
    answer = get(app, "/r/0/incident-1/report.html")

    assert answer.body == b"the report"
    assert "script" not in answer.headers["content-security-policy"]


def test_the_knowledge_base_answers_in_both_languages(app: object):
    english = json.loads(get(app, "/r/0/knowledge?q=barrier%20timeout").body)
    chinese = json.loads(get(app, "/r/0/knowledge?q=barrier%20timeout&lang=zh").body)

    assert english[0]["id"] == chinese[0]["id"]
    assert english[0]["title"] != chinese[0]["title"]
    assert json.loads(get(app, "/r/0/knowledge").body) == []


def test_settings_of_a_run_that_left_none(app: object):
    assert json.loads(get(app, "/r/0/settings").body)["ledger"] == []
