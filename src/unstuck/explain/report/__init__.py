"""One file a rendering of the verdict."""
