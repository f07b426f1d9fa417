"""The report on timeouts: a table from the inside out, then what is wrong."""

from unstuck.diagnose.timeouts import judge
from unstuck.explain.report.timeouts import render
from unstuck.model.timeouts import JobSettings, Knob, Layer, Origin

JOB = JobSettings(
    "4 ranks (runs/7)",
    (
        Knob("section 'save'", Layer.SECTION, 60.0, "", Origin.SCRIPT, "train.py:41"),
        Knob("default process group", Layer.GROUP, 77.0, "", Origin.SCRIPT, "train.py:12"),
        Knob("mesh_dp", Layer.GROUP, 1800.0, about="2 groups of 2 ranks", backend="gloo"),
        Knob("NCCL_TIMEOUT", Layer.WATCHDOG, None, "5400", Origin.ENVIRONMENT),
    ),
    ("gloo",),
    unseen=("the limit of the scheduler",),
)
EXPECTED = """\
timeouts of 4 ranks (runs/7)

  section       section 'save'                     60 s          train.py:41
  process group default process group              77 s          train.py:12
                mesh_dp                            30 min        default
                  2 groups of 2 ranks
  watchdog      NCCL_TIMEOUT                       5400          environment

without effect
  NCCL_TIMEOUT=5400: neither torch nor NCCL reads it; the limit is timeout= of
    init_process_group

in conflict
  mesh_dp: falls back to torch's default of 30 min, made without timeout=: the
    77 s of init_process_group do not reach it

a consistent set
  unset NCCL_TIMEOUT
    shell: it has no effect here
"""


def test_it_reads_from_the_inside_out() -> None:
    text = render(judge(JOB))
    assert text.startswith(EXPECTED)
    assert text.endswith("\n  not known: the limit of the scheduler\n")


def test_sources_are_told_when_asked_for() -> None:
    assert "https://docs.nvidia.com" not in render(judge(JOB))
    assert "https://docs.nvidia.com" in render(judge(JOB), sources=True)


def test_where_nothing_is_wrong_that_is_said() -> None:
    found = judge(JobSettings("the environment"))
    assert "no setting conflicts" in render(found)
    assert "no timeout is set" in render(found)


def test_colour_only_when_asked_for() -> None:
    assert "\x1b[" not in render(judge(JOB))
    assert "\x1b[" in render(judge(JOB), colour=True)
