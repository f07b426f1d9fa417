"""What stands around failures: phases, the ranks that speak, the size of the job."""

import pytest

from unstuck.model.logs import LogFact
from unstuck.observe.logs.files.sources import Source
from unstuck.observe.logs.lines.context import Context

LOG = Source("log")


def look(window: str, source: Source = LOG, last_line: int = 100) -> Context:
    context = Context(2026)
    context.look(window, source, last_line)
    return context


def test_ranks_and_world_size_come_from_any_line():
    context = look("[rank3]: hello\n[rank1]: WORLD_SIZE=8\nworld_size: 4")
    assert (context.ranks, context.world_size) == ({1, 3}, 8)


@pytest.mark.parametrize(
    ("line", "distributed"),
    [("torchrun --nproc-per-node=4", True), ("NCCL INFO Bootstrap", True), ("loss 0.1", False)],
)
def test_a_job_of_several_processes_is_known_by_its_words(line: str, distributed: bool):
    assert look(line).distributed is distributed


def test_refused_arguments_are_seen():
    assert look("train.py: error: unrecognized arguments: --lr").usage_error


def test_the_last_line_of_a_phase_counts_with_its_number():
    context = look("[rank2]: Map:  3%|#| 3/100 [00:01<00:30, 3.0 examples/s]\n[rank2]: "
                   "Map:  9%|#| 9/100 [00:03<00:30, 3.0 examples/s]\nend")  # fmt: skip
    (phase,) = context.phases
    assert (phase.fact, phase.line.rank, phase.line.line) == (LogFact.PREPARING, 2, 99)


def test_a_traceback_shows_where_its_rank_waited_not_what_keeps_it_busy():
    context = look('[rank0]:   File "train.py", line 3, in save_checkpoint\n[rank0]:     go()')
    (phase,) = context.phases
    assert (phase.fact, phase.line.rank) == (LogFact.SAVING, None)


def test_the_file_names_the_rank_where_the_line_does_not():
    context = look("Saving checkpoint to /x", Source("rank5.log", 5, "node7"))
    assert context.ranks == {5}
    assert (context.phases[0].line.rank, context.phases[0].line.host) == (5, "node7")


def test_tracebacks_of_two_hosts_show_a_job():
    assert not look("node1: ValueError: bad").distributed
    assert look("node1: ValueError: bad\nnode2: ValueError: bad").distributed
