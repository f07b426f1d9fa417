"""The user's own start-up code; `site_check.py` looks for the trace that it leaves."""

import os

os.environ["USER_SITECUSTOMIZE_RAN"] = str(os.getpid())
