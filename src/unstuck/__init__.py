"""Get stuck distributed PyTorch training unstuck."""
