"""What people, agents and schedulers see."""
