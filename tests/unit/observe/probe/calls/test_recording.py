"""What torch's recorder keeps, by its version and by the variables that switch it off."""

import pytest

from unstuck.observe.probe.calls.recording import has_gloo, why_missing

OFF = {"TORCH_FR_BUFFER_SIZE": "0"}
NOT_REALLY_OFF = {"TORCH_FR_BUFFER_SIZE": "64", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}


@pytest.mark.parametrize(
    ("version", "env", "recorded"),
    [
        ("2.4.1+cu121", {}, False),
        ("2.10.0", {}, False),
        ("2.13.0+cpu", {}, True),
        ("3.0.0a0+git12", {}, True),
        ("built-here", {}, True),
        ("2.13.0", OFF, False),
        ("2.13.0", NOT_REALLY_OFF, True),
    ],
)
def test_gloo_is_recorded(version: str, env: dict[str, str], recorded: bool):
    assert has_gloo(version, env) is recorded


@pytest.mark.parametrize(
    ("backends", "env", "words"),
    [
        (["mpi"], {}, "torch 2.5.1 does not record mpi collectives: "),
        (["nccl"], {}, "does not record nccl collectives (setting TORCH_NCCL_TRACE_BUFFER_SIZE"),
        (["nccl"], OFF, "does not record nccl collectives because TORCH_FR_BUFFER_SIZE is 0: "),
    ],
)
def test_what_is_missing_is_said_with_the_reason(
    backends: list[str], env: dict[str, str], words: str
):
    assert words in why_missing("2.5.1", backends, env)
