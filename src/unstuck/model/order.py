"""What the hub may order an agent to do to the ranks of its node."""

from enum import StrEnum

from msgspec import Struct

from unstuck.model.bounds import Number, Rank, Whole


class Act(StrEnum):
    """What an order asks for."""

    END = "end"
    """Kill these ranks; torchrun restarts them."""
    HOOK = "hook"
    """Free these ranks from their collectives and call their `@unstuck.on_stall` hooks."""
    RAISE = "raise"
    """Free these ranks from their collectives and raise `StallError` in them."""
    STOP = "stop"
    """End the launch command with an exit code."""


class Target(Struct, frozen=True):
    """One process of one rank; both must match, so that no other process is ever hit."""

    rank: Rank
    pid: Whole


class Order(Struct, frozen=True, omit_defaults=True):
    """One order; agents that were not started with a policy that acts do not obey it."""

    number: Whole
    act: Act
    targets: tuple[Target, ...] = ()
    culprits: tuple[Rank, ...] = ()
    verdict: str = ""
    """As JSON (`unstuck.verdict/1`)."""
    summary: str = ""
    """The verdict in one sentence."""
    seconds: Number = 0.0
    code: Whole = 0
    addresses: tuple[str, ...] = ()
    """Of the job's hosts: connections to them are connections between ranks."""
    hosts: tuple[str, ...] = ()
    """Only for agents of these hosts; empty: for all."""
