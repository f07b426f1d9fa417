"""Bring what the nodes see to one place: agents, hub, wire, bundles."""
