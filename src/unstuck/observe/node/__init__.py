"""Beside the ranks: pages, /proc, cgroups, stacks and the flight recorder of one host."""
