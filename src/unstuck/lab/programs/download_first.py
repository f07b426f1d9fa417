"""Healthy: one rank downloads its data before it joins, as one should; the others wait in init."""

import os

import far_away
import training

SPEED = 200_000

far_away.serve(SPEED)
if os.environ["RANK"] == "0":
    far_away.download(int(SPEED * 2.5 * training.PAUSE))
training.train(lambda: None)
