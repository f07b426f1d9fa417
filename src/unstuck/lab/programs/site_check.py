"""Succeed only where the user's own sitecustomize ran in this very process."""

import os
import sys

ran = os.environ.get("USER_SITECUSTOMIZE_RAN") == str(os.getpid())
print("sitecustomize ran" if ran else "sitecustomize was lost", flush=True)
sys.exit(0 if ran else 1)
