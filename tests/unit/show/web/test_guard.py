"""Only browsers that were given the link see the page, and only under a name that is ours."""

import socket

import pytest
from starlette.responses import PlainTextResponse

from asgi import Answer, get
from unstuck.show.web.guard import Guard

TOKEN = "the-right-token"


def ask(path: str = "/", method: str = "GET", **headers: str) -> Answer:
    return get(Guard(PlainTextResponse("inside"), TOKEN, 80), path, method, **headers)


def inside(**headers: str) -> int:
    return ask("/", authorization=f"Bearer {TOKEN}", **headers).status


def test_the_link_becomes_a_cookie_and_leaves_the_address_bar():
    answer = ask(f"/r/0/?token={TOKEN}")

    assert (answer.status, answer.headers["location"]) == (303, "/r/0/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert ask("/", cookie=cookie.partition(";")[0]).body == b"inside"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("/?token=wrong", {}),
        ("/", {"cookie": "unstuck-80=wrong"}),
        ("/", {"cookie": "unstuck-80=\x7f;;;="}),
        ("/", {"authorization": "Bearer wrong"}),
        ("/", {"authorization": "Basic dGhl"}),
    ],
)
def test_without_it_there_is_a_clear_page_and_nothing_else(path: str, headers: dict[str, str]):
    answer = ask(path, **headers)

    assert answer.status == 401
    assert b"needs the link" in answer.body


@pytest.mark.parametrize("host", ["127.0.0.1:80", "[::1]:80", "localhost:9", socket.gethostname()])
def test_names_of_this_machine_are_served(host: str):
    assert inside(host=host) == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_a_name_that_was_made_to_lead_here_is_refused(host: str):
    assert inside(host=host) == 421


def test_other_sites_are_refused():
    assert inside(origin="http://evil.example") == 403
    assert inside(origin="null") == 403
    assert inside(sec_fetch_site="cross-site", sec_fetch_mode="no-cors") == 403
    assert inside(origin="http://127.0.0.1:80") == 200


def test_nothing_can_be_posted():
    assert ask("/", "POST", authorization=f"Bearer {TOKEN}").status == 405


def test_every_answer_forbids_what_the_page_does_not_need():
    for answer in (ask(), ask("/", authorization=f"Bearer {TOKEN}")):
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
