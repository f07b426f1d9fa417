"""An inference server: requests by HTTP now and then, answered by all ranks together."""

import queue
import threading
import urllib.request
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import shift
import torch
import torch.distributed as dist

requests: queue.Queue[Any] = queue.Queue()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answered = threading.Event()
        requests.put(answered)
        answered.wait()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the answer")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def users(port: int) -> None:
    while shift.time.monotonic() < shift.END:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}") as answer:
            answer.read()
        shift.time.sleep(shift.chance.choice((0.2, 0.5, 1, 10, 40)))
    requests.put(None)


dist.init_process_group("gloo", timeout=timedelta(seconds=600))
layer = torch.nn.Linear(64, 64)
if shift.RANK == 0:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=users, args=(server.server_port,), daemon=True).start()
with torch.no_grad():
    while True:
        request = requests.get() if shift.RANK == 0 else None
        word: list[Any] = [request is not None]
        dist.broadcast_object_list(word)
        if not word[0]:
            break
        for _ in range(10):  # tokens
            shift.accelerator(0.05)
            dist.all_reduce(layer(torch.ones(1, 64)))
        if request is not None:
            request.set()
dist.destroy_process_group()
shift.trained()
