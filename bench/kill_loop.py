"""Kill and freeze the watchers of real jobs at random moments; count what is lost.

    python bench/kill_loop.py [KILLS] [FAULTS]

First one healthy job over KILLS random kills (SIGKILL, or SIGSTOP for a second and a half) of
hub or agent: its exit code and its steps must be as without. Then FAULTS short jobs in which a
rank dies while watchers are killed: each must leave exactly one incident, of the right rank.
"""

import contextlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from unstuck.lab.job import PROGRAMS, TORCHRUN, Job

LAUNCH = (*TORCHRUN[:-1], "3")


def watchers(job: Job) -> dict[str, int]:
    """Give the pids of hub and agent as they are written down."""
    try:
        facts = json.loads((job.run_dir / "unstuck.json").read_text())
    except (OSError, ValueError):
        return {}
    return {name: pid for name in ("hub", "agent") if (pid := facts.get(f"{name}_pid"))}


def strike(job: Job, chance: random.Random) -> str:
    """Kill one of them, or freeze it for a while; name what was done."""
    found = watchers(job)
    if not found:
        return ""
    name, pid = chance.choice(sorted(found.items()))
    freeze = chance.random() < 0.25
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP if freeze else signal.SIGKILL)
        if freeze:
            time.sleep(1.5)
            os.kill(pid, signal.SIGCONT)
        return f"{name} {'frozen' if freeze else 'killed'}"
    return ""


def healthy(folder: Path, kills: int, chance: random.Random) -> Counter[str]:
    """Strike one healthy job so often; then let it end."""
    stop = folder / "stop"
    env = {"STEPS": "1000000", "STOP_FILE": str(stop)}
    job = Job(folder, [*LAUNCH, str(PROGRAMS / "until_told.py")], env=env)
    done: Counter[str] = Counter()
    try:
        job.wait_watched()
        while done.total() < kills and job.process.poll() is None:
            time.sleep(chance.uniform(0.2, 4.0))
            if what := strike(job, chance):
                done[what] += 1
        stop.touch()
        code = job.wait_exit(120)
        found = re.search(r"trained (\d+) steps, expected (\d+)", job.stdout.read_text())
        print(
            f"healthy: {dict(done)}; exit code {code}; {found[0] if found else 'NO LAST WORD'};"
            f" verdicts {len(job.verdicts())}",
            flush=True,
        )
        if code or found is None or found[1] != found[2] or job.verdicts():
            done["WRONG"] += 1
            print(job.words())
    finally:
        job.kill()
    return done


def faulty(folder: Path, chance: random.Random) -> str:
    """Let a rank die while watchers die around it; compare the incidents with one."""
    job = Job(folder, [*LAUNCH, str(PROGRAMS / "sigstop.py")])
    try:
        job.wait_onset()
        time.sleep(chance.uniform(0.0, 5.0))
        what = strike(job, chance)
        # Nothing may come twice: a watcher that was restarted has judged long before this is over.
        time.sleep(12)
        named = [[c["rank"] for c in one["culprits"]] for one in job.verdicts()]
        return f"{'right' if named == [[2]] else 'WRONG'}: {what}, incidents {named}"
    finally:
        job.kill()


def main() -> None:
    """Run both parts and print what was found."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    faults = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    seed = random.SystemRandom().randrange(1 << 30)
    chance = random.Random(seed)  # noqa: S311 - it decides whom to kill
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        healthy(Path(place) / "healthy", kills, chance)
        for number in range(faults):
            print(faulty(Path(place) / f"fault-{number}", chance), flush=True)


if __name__ == "__main__":
    main()
