"""The error of a section that took longer than it may."""


class SectionTimeout(TimeoutError):
    """A section has taken longer than its timeout.

    With `on_timeout="raise"` it is raised in the thread that is in the section; a callable
    gets it as its argument.
    """

    def __init__(
        self,
        text: str = "",
        *,
        name: str = "",
        timeout: float = 0.0,
        seconds: float = 0.0,
        learned: bool = False,
        place: tuple[str, int, str] = ("", 0, ""),
    ) -> None:
        self.name = name
        self.timeout = timeout
        """What it may take, in seconds; learned where the script gave none."""
        self.seconds = seconds
        """What it had taken when this was noticed."""
        self.learned = learned
        self.file, self.line, self.function = place
        """Where its thread was at that moment, as far as known."""
        super().__init__(text or self._text())

    def _text(self) -> str:
        if not self.name:
            return "a section has taken longer than its timeout"
        limit = "three times as long as ever before" if self.learned else "its timeout"
        text = f"section {self.name!r} has taken {self.timeout:g} s, {limit}"
        if self.file:
            text += f", and is at {self.file.rsplit('/', 1)[-1]}:{self.line} in {self.function}"
        return text

    def fill(self, other: "SectionTimeout") -> None:
        """Take over what another one knows: CPython raises in a thread without any arguments."""
        self.__dict__.update(other.__dict__)
        self.args = other.args
