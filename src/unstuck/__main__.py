"""`python -m unstuck` is the same as `unstuck`."""

import sys

from unstuck.show.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
