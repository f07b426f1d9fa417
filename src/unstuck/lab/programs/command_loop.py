"""Healthy: rank 0 reads commands from a socket and hands them on; in between all are idle."""

import socket
import threading
import time
from typing import Any

import torch.distributed as dist
import training


def person(address: tuple[str, int]) -> None:
    """Type a command now and then."""
    with socket.create_connection(address) as terminal:
        for command in ("train", "train", "stop"):
            time.sleep(training.PAUSE / 2)
            terminal.sendall(f"{command}\n".encode())


rank = training.join()
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=person, args=(server.getsockname(),), daemon=True).start()
commands = server.accept()[0].makefile()
command: list[Any] = [""]
while command[0] != "stop":
    if rank == 0:
        command = [commands.readline().strip()]
    dist.broadcast_object_list(command)
    training.steps(10)
training.finish()
