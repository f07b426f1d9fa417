"""What a training script can use, and what runs inside a rank beside it."""
