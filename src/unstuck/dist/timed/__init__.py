"""`torch.distributed` functions with a `timeout=`."""
