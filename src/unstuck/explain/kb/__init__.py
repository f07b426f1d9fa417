"""The knowledge base: failure signatures with causes, dead ends and workarounds."""
