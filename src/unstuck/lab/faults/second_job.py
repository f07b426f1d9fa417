"""A second job on the same machine: no fault, but a neighbour that must not be mixed up."""

from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.job import LAUNCHER, PROGRAMS, Job
from unstuck.lab.world import World


class SecondJob(Fault, frozen=True, tag="second-job"):
    """Proven by the second job's own mark that it trains."""

    ranks: int = 2
    steps: int = 40

    def inject(self, world: World) -> Injection:
        """Start it beside the first, watched as well."""
        size = ("--standalone", "--nproc-per-node", str(self.ranks))
        command = (*LAUNCHER, *size, str(PROGRAMS / "healthy.py"))
        env = {"STEPS": str(self.steps), "FAULT_RANK": "0", "FAULT_STEP": "10"}
        job = Job(world.folder / "second", command, env=env)

        def look() -> Fired | None:
            at = job.onset()
            return None if at is None else Fired(at, 1, "the second job trains beside the first")

        return Injection(look, job.kill)
