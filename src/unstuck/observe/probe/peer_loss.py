"""Messages with which a rank complains of another one: it followed, it was not the first."""

FOLLOWS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection timed out",
    "Application timeout caused pair closure",
    "Broken pipe",
    "Socket closed",
    "Timed out waiting",
    "Timed out after",
    "Operation timed out",
    "wait timeout after",
    "Watchdog caught collective operation timeout",
    "to pass monitoredBarrier",
    "successfully reached monitoredBarrier",
    "connectFullMesh failed",
    "remote process has exited",
    "NCCL communicator was aborted",
    "Did the remote server shutdown or crash",
)


def tells_of_a_peer(message: str) -> bool:
    """Tell whether a message speaks of another rank's end or delay.

    Example:
        >>> tells_of_a_peer("[pair.cc:544] Connection closed by peer [10.0.0.2]:21932")
        True
    """
    return any(words in message for words in FOLLOWS)
