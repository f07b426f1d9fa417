"""Which ranks have not arrived when an operation times out, and what they are doing instead."""
