"""Run somebody else's launch command with an agent, and where needed a hub, beside it."""
