"""Flight-recorder dumps on disk: read without torch, turned into a snapshot."""
