"""Give back what comes in on standard input, in capitals."""

import sys

for line in sys.stdin:
    print(line.upper(), end="", flush=True)
