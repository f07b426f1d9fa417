"""One rank has resumed from an older checkpoint: when the others are done, it has steps left."""

import onset
import training

rank = training.join()
training.steps(onset.FAULT_STEP)
if rank == onset.FAULT_RANK:
    training.steps(10)  # fault
else:
    onset.mark()
training.finish()
