"""The operations of torch.distributed that take a `timeout=` here."""

from typing import NamedTuple

_DST, _SRC = ("dst", "group_dst"), ("src", "group_src")


class Operation(NamedTuple):
    """What has to be known about one operation."""

    name: str
    outputs: tuple[str, ...] = ()
    """Arguments it writes to."""
    in_place: bool = False
    """It reduces into its own input: when it is cut short, the tensor's contents are undefined."""
    root: tuple[str, str] | None = None
    """The arguments that name its root, as a global rank and as a rank of the group."""
    writes: str = "all"
    """The ranks it writes on: `all`, only the `root`, or all `but the root`."""
    deaf: bool = False
    """On gloo its handle ignores a timeout, and only its `wait` delivers the result."""
    partner: tuple[str, str] | None = None
    """The arguments that name the other rank of a send or receive, like `root`."""
    messages: int = 0
    """How many sends or receives it consists of."""

    @property
    def sends(self) -> bool:
        """Whether it sends to its partner."""
        return self.partner == _DST


COLLECTIVES = (
    Operation("all_reduce", ("tensor",), in_place=True),
    Operation("all_reduce_coalesced", ("tensors",), in_place=True),
    Operation("reduce", ("tensor",), in_place=True, root=_DST, writes="root"),
    Operation("broadcast", ("tensor",), root=_SRC, writes="but the root"),
    Operation("all_gather", ("tensor_list",)),
    Operation("all_gather_single", ("output_tensor",)),
    Operation("all_gather_into_tensor", ("output_tensor",)),
    Operation("_all_gather_base", ("output_tensor",)),
    Operation("all_gather_coalesced", ("output_tensor_lists",)),
    Operation("gather", ("gather_list",)),
    Operation("scatter", ("tensor",)),
    Operation("reduce_scatter", ("output",), deaf=True),
    Operation("reduce_scatter_single", ("output",), deaf=True),
    Operation("reduce_scatter_tensor", ("output",), deaf=True),
    Operation("_reduce_scatter_base", ("output",), deaf=True),
    Operation("all_to_all_single", ("output",)),
    Operation("all_to_all", ("output_tensor_list",)),
)
BARRIER = Operation("barrier")
"""Not among the others because torch's own has a `timeout`, which may be positional."""

# An object list takes two messages: the sizes, then the bytes.
OBJECTS = (
    Operation("all_gather_object", ("object_list",)),
    Operation("gather_object", ("object_gather_list",)),
    Operation("broadcast_object_list", ("object_list",)),
    Operation("scatter_object_list", ("scatter_object_output_list",)),
    Operation("send_object_list", partner=_DST, messages=2),
    Operation("recv_object_list", ("object_list",), partner=_SRC, messages=2),
)

ISEND = Operation("isend", partner=_DST, messages=1)
IRECV = Operation("irecv", ("tensor",), partner=_SRC, messages=1)
SEND = ISEND._replace(name="send")
RECV = IRECV._replace(name="recv")
