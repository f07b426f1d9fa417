"""Whether the other side's kernel still confirms what we send, when its process says nothing.

A stopped or frozen process leaves its connection to the kernel, which confirms every byte; a
dead host or a cut network confirms nothing. Linux tells through TCP_INFO.
"""

import asyncio
import socket
import struct

_UNACKED = struct.Struct("=24xI")
"""`tcpi_unacked` of struct tcp_info: segments on their way without confirmation."""


def all_confirmed(writer: asyncio.StreamWriter) -> bool:
    """Tell whether everything written so far was confirmed by the other side's kernel."""
    transport = writer.transport
    if transport.is_closing() or transport.get_write_buffer_size():
        return False
    connection = writer.get_extra_info("socket")
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _UNACKED.size)
    except OSError:
        return False
    return len(info) == _UNACKED.size and _UNACKED.unpack(info)[0] == 0
