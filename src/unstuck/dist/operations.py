"""The operations of torch.distributed that take a `timeout=` here."""

from typing import NamedTuple


class Operation(NamedTuple):
    """What has to be known of one operation."""

    name: str
    outputs: tuple[str, ...] = ()
    """Arguments it writes into."""
    in_place: bool = False
    """It reduces into its own input: cut short, nobody knows what the tensor holds."""
    root: tuple[str, str] | None = None
    """The arguments that name its root, as a global rank and as one of the group."""
    writes: str = "all"
    """Which ranks it writes in: `all`, only the `root`, or all `but the root`."""
    deaf: bool = False
    """On gloo the handle ignores a timeout, and only its `wait` brings the result."""


COLLECTIVES = (
    Operation("all_reduce", ("tensor",), in_place=True),
    Operation("all_reduce_coalesced", ("tensors",), in_place=True),
    Operation("reduce", ("tensor",), in_place=True, root=("dst", "group_dst"), writes="root"),
    Operation("broadcast", ("tensor",), root=("src", "group_src"), writes="but the root"),
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
    Operation("barrier"),
)

OBJECTS = (
    Operation("all_gather_object", ("object_list",)),
    Operation("gather_object", ("object_gather_list",)),
    Operation("broadcast_object_list", ("object_list",)),
    Operation("scatter_object_list", ("scatter_object_output_list",)),
    Operation("send_object_list"),
    Operation("recv_object_list", ("object_list",)),
)

POINT_TO_POINT = (
    Operation("isend"),
    Operation("irecv", ("tensor",)),
    Operation("send"),
    Operation("recv", ("tensor",)),
)

SENDS_PER_OBJECT_LIST = 2
"""An object list goes as two messages: the sizes, then the bytes."""
