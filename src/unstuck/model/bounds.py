"""What numbers may be, checked where a frame, a bundle or a page is decoded.

Within these bounds the arithmetic of diagnosis cannot overflow, and nothing that is counted out
takes much memory. No honest agent sends anything else: what is outside is refused as a whole.
"""

from typing import Annotated

from msgspec import Meta

LONGEST = 1e9
"""Thirty years in seconds."""
MOST_RANKS = 1 << 20

Number = Annotated[float, Meta(ge=-LONGEST, le=LONGEST)]
"""Seconds, shares, cores: never NaN and never infinite."""
Moment = Annotated[float, Meta(ge=0.0, le=1e11)]
"""Unix time."""
Rank = Annotated[int, Meta(ge=0, lt=MOST_RANKS)]
AnyRank = Annotated[int, Meta(ge=-1, lt=MOST_RANKS)]
"""-1 where there is none, or it is not known."""
Ranks = Annotated[int, Meta(ge=0, le=MOST_RANKS)]
"""How many of them."""
Whole = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)]
"""What a float can still count exactly."""


def bounded(number: float) -> float:
    """Return the nearest number that is allowed; 0 for NaN.

    Example:
        >>> bounded(float("inf")), bounded(2.5)
        (1000000000.0, 2.5)
    """
    return 0.0 if number != number else max(-LONGEST, min(LONGEST, number))  # noqa: PLR0124
