"""The live page: a process beside the hub that follows the job and shows it to browsers."""
