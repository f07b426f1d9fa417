"""A program that never touches torch.distributed; `EXIT_CODE` (0) is how it ends."""

import os
import sys

print(f"the answer is {6 * 7}", flush=True)
print("a word on stderr", file=sys.stderr, flush=True)
sys.exit(int(os.environ.get("EXIT_CODE", "0")))
