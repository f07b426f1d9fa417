"""An incident in which every text that comes from outside tries to be more than text."""

import msgspec

from scenes import one_sleeps, verdict_of
from unstuck.explain.advice.advice import advise
from unstuck.explain.report.incident.contents import Report, contents
from unstuck.model.rank import CodeLine, Failure
from unstuck.model.verdict import Evidence

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\u202e"


def incident(size: int = 4, sleeper: int = 2) -> Report:
    """An ordinary incident: one rank sleeps, the others wait for it."""
    scene = one_sleeps(size, sleeper)
    return contents(scene.snapshot(), advise(verdict_of(scene)), {"command": ["torchrun", "x.py"]})


def hostile() -> Report:
    scene = one_sleeps()
    line = CodeLine(f"/{EVIL}.py", 7, EVIL, EVIL, user=True)
    scene.change(2, host=EVIL, stack=(line,), threads=(EVIL,), failure=Failure(EVIL, EVIL, 1.0))
    verdict = advise(verdict_of(scene))
    verdict = msgspec.structs.replace(
        verdict,
        summary=EVIL,
        because=EVIL,
        do=(EVIL, f"`{EVIL}`"),
        dont=(EVIL,),
        evidence=(Evidence(EVIL, EVIL, file=EVIL, line=1),),
    )
    return contents(scene.snapshot(), verdict, {"command": [EVIL]}, title=EVIL)
