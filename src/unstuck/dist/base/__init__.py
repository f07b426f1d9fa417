"""What the rooms of `unstuck.dist` share: limits, groups, sockets, and unfinished operations."""
