"""A launch with our check in the place of the script: `unstuck doctor torchrun …`."""
