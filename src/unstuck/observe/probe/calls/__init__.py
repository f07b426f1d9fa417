"""What a rank calls in torch.distributed, as its probe and torch's recorder see it."""
