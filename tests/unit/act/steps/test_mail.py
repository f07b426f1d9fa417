"""A verdict by e-mail, through a real mail server on the loopback interface."""

import socket
from collections.abc import Generator
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as KeepsMessages

from scenes import one_sleeps, verdict_of
from unstuck.act.policy import Notify
from unstuck.act.steps import mail


class Mailbox(KeepsMessages):
    def __init__(self) -> None:
        super().__init__(EmailMessage)
        self.received: list[EmailMessage] = []

    def handle_message(self, message: Any) -> None:
        again = message_from_bytes(message.as_bytes(), policy=policy.default)
        assert isinstance(again, EmailMessage)
        self.received.append(again)


@pytest.fixture
def server() -> Generator[tuple[Controller, Mailbox]]:
    box = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    yield controller, box
    controller.stop()


def test_all_recipients_get_the_text_and_the_verdict(server: tuple[Controller, Mailbox]):
    controller, box = server
    at = f"127.0.0.1:{controller.port}"
    settings = Notify(email=("a@example.org", "b@example.org"), smtp=at)
    verdict = msgspec.structs.replace(verdict_of(one_sleeps()), summary="x\r\nBcc: c@evil.example")
    mail.send(verdict, settings, "what to do", "vm/7\r\nBcc: c@evil.example")
    (message,) = box.received
    assert message["To"] == "a@example.org, b@example.org"
    assert message["Bcc"] is None
    assert message["Subject"].startswith("unstuck: busy-elsewhere (vm/7 Bcc")
    text = message.get_body()
    assert text is not None
    assert "what to do" in text.get_content()
    (attached,) = message.iter_attachments()
    found = msgspec.json.decode(attached.get_content())
    assert found["verdict"]["cause"] == verdict.cause


def test_a_server_that_is_not_there():
    with pytest.raises(OSError, match="refused"):
        mail.send(verdict_of(one_sleeps()), Notify(email=("a@b.c",), smtp="127.0.0.1:1"), "", "")
