"""A verdict by e-mail, through a mail server that takes it without a password or with one."""

import os
import smtplib
import ssl
from email.message import EmailMessage

from unstuck.act.policy import Notify
from unstuck.console import clean
from unstuck.explain.report import machine
from unstuck.model.verdict import Verdict

WITHIN = 10.0
USER, PASSWORD = "UNSTUCK_SMTP_USER", "UNSTUCK_SMTP_PASSWORD"


def send(verdict: Verdict, settings: Notify, text: str, source: str = "") -> None:
    """Send one message to all recipients, with the verdict attached.

    Raises:
        OSError: the server cannot be reached, or refuses.
    """
    host, _, port = settings.smtp.rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=WITHIN) as server:
        server.ehlo()
        if server.has_extn("starttls"):
            # A password is only given to the server that it is meant for.
            checked = ssl.create_default_context() if os.environ.get(USER) else None
            server.starttls(context=checked)
        if user := os.environ.get(USER):
            server.login(user, os.environ.get(PASSWORD, ""))
        server.send_message(message(verdict, settings, text, source))


def message(verdict: Verdict, settings: Notify, text: str, source: str = "") -> EmailMessage:
    """Return the message. What comes from the job is kept out of the headers but for one line."""
    mail = EmailMessage()
    about = f" ({clean(source)})" if source else ""
    mail["Subject"] = f"unstuck: {verdict.cause}{about}"[:200]
    mail["From"] = settings.email_from
    mail["To"] = ", ".join(settings.email)
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text)
    attached = machine.render(verdict).encode()
    mail.add_attachment(attached, "application", "json", filename="verdict.json")
    return mail
