"""Makes the job builders importable by their plain name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
