"""A run directory whose job is a made-up scene, judged by the real pipeline, asked by a socket.

Only what lies between is not the real thing: agent, network and hub.
"""

import json
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

from msgspec import structs

from unstuck.model.snapshot import Snapshot
from unstuck.pipelines.live import Pipeline

COMMAND = ["torchrun", "--nproc-per-node=4", "train.py"]


class ServedRun:
    """Answers every question as the hub of this job would; takes stacks at once."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        path.mkdir(parents=True)
        self.path = path
        self.asked: list[dict[str, Any]] = []
        self.live = Path(tempfile.mkdtemp(prefix="served-"))
        self._pipeline = Pipeline(path, COMMAND, "host0")
        self._readers = self._pipeline._readers
        self._snapshot = snapshot
        self.judge()
        (path / "unstuck.json").write_text(json.dumps({"command": COMMAND, "pid": 0}))
        (path / "live-vm-1").symlink_to(self.live)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.live / "agent.sock"))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def judge(self) -> None:
        """Judge the job once more; whose stacks are wanted get some."""
        for request in self._pipeline.judge(self._snapshot):
            ranks = tuple(
                structs.replace(one, threads=(f"Thread of rank {one.rank}",), stack_age=0.1)
                if one.rank in request.ranks and request.kind == "stack"
                else one
                for one in self._snapshot.ranks
            )
            self._snapshot = structs.replace(self._snapshot, ranks=ranks)

    def end(self) -> None:
        """End the job as it does by itself."""
        self._pipeline.close()
        self.close()

    def close(self) -> None:
        """Stop answering and remove what a live directory is."""
        if self._listener.fileno() >= 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._thread.join(5)
        shutil.rmtree(self.live, ignore_errors=True)
        (self.path / "live-vm-1").unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as file:
                question = json.loads(file.readline())
                self.asked.append(question)
                answer = self._readers.answer(question)
                self.judge()
                file.write(json.dumps(answer).encode() + b"\n")
                file.flush()
