"""A function of torch with a `timeout=` is called and documented like torch's own."""

import inspect
from typing import Any

import pytest
import torch
from torch.distributed import distributed_c10d as c10d

from unstuck import dist
from unstuck.dist.base import groups, limits
from unstuck.dist.timed.operations import COLLECTIVES, ISEND
from unstuck.dist.timed.wrapping import begin, torch_function, with_names, wrapped

ALL_REDUCE = COLLECTIVES[0]


def test_without_a_timeout_the_call_goes_straight_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c10d, "all_reduce", lambda tensor, group: ("torch", tensor, group))
    call = wrapped(ALL_REDUCE, lambda args, kwargs, timeout, copy: ("timed", timeout, copy))
    assert call(1, group=2) == ("torch", 1, 2)
    assert call(1, timeout=5, copy=True) == ("timed", 5, True)
    with limits.deadline(60):
        assert call(1) == ("timed", None, False)


def test_signature_and_documentation_have_both_arguments() -> None:
    names = list(inspect.signature(dist.all_reduce).parameters)
    assert names == [*inspect.signature(c10d.all_reduce).parameters, "timeout", "copy"]
    assert "names the ranks that have not arrived" in (dist.all_reduce.__doc__ or "")


def test_arguments_are_named_like_python_does() -> None:
    names = ("tensor", "op", "group")
    assert with_names("f", names, (1, 2), {"group": 3}) == {"tensor": 1, "op": 2, "group": 3}
    with pytest.raises(TypeError, match=r"f\(\) takes 3 arguments but 4 were given"):
        with_names("f", names, (1, 2, 3, 4), {})
    with pytest.raises(TypeError, match=r"f\(\) got multiple values for argument 'op'"):
        with_names("f", names, (1, 2), {"op": 2})


def test_messages_are_counted_per_group(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c10d, "isend", lambda tensor, dst=None, group=None: "sent")
    isend = torch_function(ISEND)
    before = groups.SENT.get("0", 0)
    assert isend(torch.ones(1), 0) == "sent"
    assert isend(torch.ones(1), 0, world) == "sent"
    assert isend(torch.ones(1), 0, group="no group") == "sent"
    assert groups.SENT["0"] == before + 2


def test_the_earlier_of_timeout_and_deadline_counts(world: Any) -> None:
    group = groups.describe(world)
    assert begin("all_reduce", group, None, [], copy=False) is None
    with limits.deadline(10, copy=True):
        call = begin("all_reduce", group, 60, [torch.ones(1)], copy=False)
    assert call is not None
    assert 9 < call.allowed <= 10
    assert call.copied
    assert not call.tensors


def test_nothing_is_started_after_the_deadline(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with limits.deadline(10), monkeypatch.context() as patched:
        patched.setattr(limits, "end", lambda: 0.0)
        with pytest.raises(dist.CollectiveTimeout, match="before it was started") as caught:
            dist.all_reduce(torch.ones(1))
    assert not caught.value.started
