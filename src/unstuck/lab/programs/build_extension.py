"""Healthy: rank 0 compiles an extension in C, file after file, while the others wait for it."""

import subprocess
import tempfile
import time
from pathlib import Path

import training

KERNEL = "int kernel{0}(int x) {{ for (int i = 0; i < {0}; i++) x = x * 3 + i; return x; }}\n"


def build() -> None:
    end = time.monotonic() + training.PAUSE
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernels.c")
        source.write_text("".join(map(KERNEL.format, range(2000))))
        while time.monotonic() < end:
            command = ("cc", "-O2", "-c", "-o", f"{folder}/kernels.o", str(source))
            subprocess.run(command, check=True)


training.train(build)
