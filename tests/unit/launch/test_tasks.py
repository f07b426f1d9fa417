"""What mpirun and srun say of a job to each of its tasks."""

import pytest

from unstuck.launch import tasks
from unstuck.launch.command import understand

MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_ess_base_jobid": "3405774849",
}
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "node1,node2",
    "SLURM_PROCID": "3",
}
COMMAND = ["python", "-c", "import train"]


@pytest.mark.parametrize(
    ("env", "rank", "several_nodes"),
    [
        (MPI, 1, False),
        ({**MPI, "OMPI_COMM_WORLD_SIZE": "4"}, 1, True),
        (STEP, 3, True),
        ({**STEP, "SLURM_STEP_NUM_NODES": "1"}, 3, False),
        ({"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}, 0, False),
    ],
)
def test_task(env: dict[str, str], rank: int, several_nodes: bool):
    found = tasks.read(env)
    assert found is not None
    assert (found.rank, found.several_nodes) == (rank, several_nodes)


@pytest.mark.parametrize(
    "env",
    [
        {},
        {**MPI, "OMPI_COMM_WORLD_SIZE": "1"},
        {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"},
    ],
    ids=["no launcher", "one task", "a batch script, no step"],
)
def test_process_that_is_no_task_of_several(env: dict[str, str]):
    assert tasks.read(env) is None


def test_all_tasks_of_a_job_look_for_the_hub_at_one_place_and_no_other_job_does():
    first = understand(COMMAND, {**MPI, "OMPI_COMM_WORLD_RANK": "0"})
    second = understand(COMMAND, MPI)
    other = understand(COMMAND, {**MPI, "OMPI_MCA_ess_base_jobid": "1"})

    assert (first.master, first.port, first.job) == (second.master, second.port, second.job)
    assert (first.task, second.task) == ("0/2", "1/2")
    assert (other.port, other.job) != (first.port, first.job)


def test_hub_of_a_step_on_several_nodes_is_on_its_first_one():
    assert understand(COMMAND, STEP).master == "node1"
    assert understand(COMMAND, {**STEP, "MASTER_ADDR": "10.0.0.1"}).master == "10.0.0.1"


def test_rank_that_its_launcher_gave_a_number_needs_no_guess():
    env = {**MPI, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"}
    assert understand(COMMAND, env).task == ""
