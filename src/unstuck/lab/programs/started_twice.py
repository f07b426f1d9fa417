"""A wrapper computes the rank wrongly: one rank is started twice, another one never."""

import os

import onset

if onset.RANK == 3:
    os.environ["RANK"] = str(onset.FAULT_RANK)  # fault
    onset.mark()

import training

training.join()
training.steps(1000)
