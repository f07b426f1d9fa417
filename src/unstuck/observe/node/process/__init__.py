"""One process as the kernel shows it: /proc, control groups, pressure, connections."""
