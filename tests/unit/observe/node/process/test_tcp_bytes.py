"""What the connections of a process have carried, as the kernel counts it."""

import os
import socket

from unstuck.observe.node.process import tcp_bytes


def test_what_arrives_at_a_connection_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            before = tcp_bytes.total({os.getpid()})
            near.sendall(bytes(5000))
            assert len(far.recv(5000, socket.MSG_WAITALL)) == 5000
            after = tcp_bytes.total({os.getpid()})
    assert before is not None
    assert after is not None
    assert after - before >= 5000


def test_connections_of_other_processes_are_not() -> None:
    assert tcp_bytes.total(set()) == 0


def test_one_over_ipv6_counts_as_well() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        near = socket.create_connection(server.getsockname()[:2])
        far, _ = server.accept()
        with near, far:
            near.sendall(bytes(2000))
            far.recv(2000, socket.MSG_WAITALL)
            found = tcp_bytes.total({os.getpid()})
    assert found is not None
    assert found >= 2000
