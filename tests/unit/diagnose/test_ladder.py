"""The ladder: one order, every cause in reach, every threshold with its unit and its reason."""

import ast
import re
from pathlib import Path

from scenes import job, one_sleeps, verdict_of
from unstuck.diagnose import thresholds
from unstuck.diagnose.case import Case
from unstuck.diagnose.diagnose import diagnose
from unstuck.diagnose.job.standing import survey
from unstuck.diagnose.ladder import LADDER
from unstuck.model.verdict import Cause

SOURCE = Path(thresholds.__file__).parent


def speaks(scene_snapshot: object) -> str:
    case = Case(survey(scene_snapshot))  # pyright: ignore[reportArgumentType]
    return next((rule.name for rule in LADDER if rule.find(case) is not None), "")


def test_a_healthy_job_passes_every_rung() -> None:
    assert speaks(job(4).snapshot()) == ""
    assert diagnose(job(4).snapshot()).verdict is None


def test_a_death_hides_the_wait_that_it_causes() -> None:
    scene = one_sleeps()
    assert speaks(scene.snapshot()) == "somebody is waited for"
    scene.end(1, -9, 5.0)
    assert speaks(scene.snapshot()) == "a rank died"
    assert verdict_of(scene).cause is Cause.PROCESS_CRASH


def test_a_fresh_death_silences_the_rungs_below_until_the_root_is_known() -> None:
    scene = one_sleeps().end(1, -9, 0.1)
    assert speaks(scene.snapshot()) == "a rank died"
    assert diagnose(scene.snapshot()).verdict is None


def test_nobody_is_judged_while_the_job_is_being_stopped() -> None:
    scene = one_sleeps().end(1, -9, 5.0).node("host0", stopping=True)
    assert speaks(scene.snapshot()) == "the job is being stopped"
    assert diagnose(scene.snapshot()).verdict is None


def test_every_rung_says_why_it_stands_there() -> None:
    assert all(rule.why.endswith(".") and len(rule.why) > 40 for rule in LADDER)
    assert len({rule.name for rule in LADDER}) == len(LADDER)


def test_every_threshold_has_a_unit_and_says_whether_it_was_derived_or_tuned() -> None:
    tree = ast.parse(Path(thresholds.__file__).read_text())
    units = re.compile(
        r"\b([Ss]econds|[Ss]hare|[Tt]imes|[Ss]teps|[Ll]ines|[Mm]essages|errors|Signs)\b"
    )
    for assign, text in zip(tree.body[1::2], tree.body[2::2], strict=True):
        assert isinstance(assign, ast.Assign)
        assert isinstance(text, ast.Expr)
        words = ast.literal_eval(text.value)
        assert units.search(words), words
        assert "Tuned" in words or "Derived" in words, words


def test_numbers_that_decide_stand_in_one_file() -> None:
    number = re.compile(r"^[A-Z][A-Z_]+ = [\d.]+$", re.MULTILINE)
    allowed = {"MOST_PROCESSES", "MOST_UNSEEN"}
    for path in SOURCE.rglob("*.py"):
        if path.name == "thresholds.py" or path.parent.name in ("logs", "timeouts"):
            continue
        found = {line.split(" ")[0] for line in number.findall(path.read_text())}
        assert found <= allowed, path
