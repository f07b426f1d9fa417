"""What diagnosis may ask for: a value that the pipeline carries out."""

from enum import StrEnum

from msgspec import Struct


class EvidenceKind(StrEnum):
    """`RECORDER`: the flight recorder in full. `STACK`: all threads, taken from outside."""

    RECORDER = "recorder"
    STACK = "stack"


class EvidenceRequest(Struct, frozen=True):
    """Ask the agents of these ranks for one kind of evidence; the answer is in their next frame."""

    kind: EvidenceKind
    ranks: tuple[int, ...]
