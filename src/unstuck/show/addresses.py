"""Addresses to listen on, as people write them."""

from unstuck.errors import UsageError


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; brackets around an IPv6 address are dropped.

    Raises:
        UsageError: it is not an address.

    Example:
        >>> parse_address("127.0.0.1:9099", "--listen")
        ('127.0.0.1', 9099)
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{option} {text} is not HOST:PORT", hint=f"{option} 127.0.0.1:0")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(host: str) -> bool:
    """Tell whether only this host can reach an address.

    Example:
        >>> is_loopback("0.0.0.0")
        False
    """
    return host in ("localhost", "::1") or host.startswith("127.")
