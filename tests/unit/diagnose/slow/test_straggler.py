"""Stragglers are named, and nothing that only looks like one."""

import random

import msgspec
import pytest

from scenes import Scene, culprits, grid, inside, job, silent, user, verdict_of
from timelines import Work, watch
from unstuck.diagnose.slow.straggler import is_over
from unstuck.model.host import OtherProcess, Pressure
from unstuck.model.rank import Tempo
from unstuck.model.verdict import Cause, Confidence

BUSY = Tempo(steps=40, step=0.3, own=0.1, usual_own=0.1)
SLOW = Tempo(steps=40, step=0.3, own=0.29, usual_own=0.1, changed_for=12.0)


def moving(size: int = 4, slow: tuple[int, ...] = (), **layout: object) -> Scene:
    """A job in which some ranks take longer since 12 s."""
    scene = job(size, **layout)  # type: ignore[arg-type]
    for rank in range(size):
        scene.change(rank, tempo=SLOW if rank in slow else BUSY)
    return scene


def seen(work: Work, *, ranks: int = 4, **how: object) -> Scene:
    """A job as the probes see it."""
    scene = job(ranks)
    for rank, tempo in enumerate(watch(work, ranks=ranks, **how)):  # type: ignore[arg-type]
        scene.change(rank, tempo=tempo)
    return scene


def test_straggler_is_named_with_its_cost_and_since_when():
    line = user("x = augment(x)", 31, "load")
    scene = moving(slow=(2,))
    scene.change(2, tempo=msgspec.structs.replace(SLOW, place=line, place_share=0.8))
    verdict = verdict_of(scene)

    assert (verdict.cause, verdict.confidence) == (Cause.STRAGGLER, Confidence.LIKELY)
    assert culprits(verdict) == [2]
    assert verdict.victims == (0, 1, 3)
    assert (verdict.stalled_seconds, verdict.slowdown) == (12.0, 2.73)
    assert (verdict.culprits[0].line, verdict.culprits[0].function) == (31, "load")
    assert verdict.summary == (
        "Rank 2 slows the job down from 110 ms to 300 ms per step: "
        "it needs 290 ms of its own per step, the others 100 ms."
    )
    assert "the others waited 67% of the time, it 3%" in verdict.because
    assert "before that, it needed 100 ms" in verdict.because
    assert any("80% of its own time at line 31" in item.text for item in verdict.evidence)
    assert Cause.UNEVEN_WORK in {other.cause for other in verdict.alternatives}


@pytest.mark.parametrize("step", [0.05, 0.1, 1.0, 10.0])
def test_straggler_of_any_step_length_is_seen(step: float):
    scene = seen(lambda rank, _: step * (2 if rank == 3 else 1), steps=max(60, int(20 / step)))
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.STRAGGLER, [3])
    assert "never been seen faster" in verdict.because


def uneven(kind: str, seed: int) -> Work:
    """Steps that vary a lot, equally on all ranks."""
    drawn: dict[int, list[float]] = {}

    def draw(chance: random.Random) -> float:
        match kind:
            case "pareto":
                return min(0.05 * chance.paretovariate(1.0), 2.5)
            case "lognormal":
                return 0.1 * chance.lognormvariate(0, 1)
            case _:
                return chance.expovariate(10)

    def work(rank: int, step: int) -> float:
        if rank not in drawn:
            chance = random.Random(f"{seed} {rank}")
            drawn[rank] = [draw(chance) for _ in range(400)]
        return drawn[rank][step]

    return work


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("kind", ["pareto", "lognormal", "exponential"])
def test_nobody_is_accused_where_chance_decides_who_is_last(kind: str, counted: bool):
    named = [
        (seed, steps)
        for seed in range(12)
        for steps in (60, 100, 150, 250)
        if not silent(seen(uneven(kind, seed), steps=steps, counted=counted))
    ]
    assert named == []


def test_straggler_is_named_where_steps_vary_a_lot():
    usual = uneven("lognormal", 1)
    scene = seen(lambda rank, step: usual(rank, step) + 0.3 * (rank == 2 and step > 200), steps=300)
    assert culprits(verdict_of(scene)) == [2]


def test_straggler_is_seen_seconds_after_it_became_one():
    def work(rank: int, step: int) -> float:
        return 0.3 if rank == 2 and step >= 300 else 0.1

    assert silent(seen(work, steps=310))
    verdict = verdict_of(seen(work, steps=335))
    assert culprits(verdict) == [2]
    assert verdict.stalled_seconds == pytest.approx(35 * 0.305, abs=1.0)


def test_straggler_that_became_one_soon_after_the_start_was_faster_before():
    def work(rank: int, step: int) -> float:
        return 0.3 if rank == 2 and step >= 30 else 0.1

    verdict = verdict_of(seen(work, steps=65))
    assert culprits(verdict) == [2]
    assert "before that, it needed 1" in verdict.because


def test_device_that_works_ahead_hides_who_is_last():
    """Issuing late costs nothing where the device is busy anyway."""
    scene = moving(slow=(2,))
    for rank in range(4):
        scene.progress(rank, "0", backend="nccl")
    assert culprits(verdict_of(scene)) == [2]
    assert silent(scene.change(2, tempo=msgspec.structs.replace(SLOW, own=0.2)))


def test_slower_of_two_ranks():
    verdict = verdict_of(seen(lambda rank, _: 0.3 if rank else 0.1, ranks=2))
    assert culprits(verdict) == [1]


def test_two_of_sixteen():
    assert culprits(verdict_of(moving(16, (3, 9)))) == [3, 9]


def test_all_ranks_of_one_host():
    verdict = verdict_of(moving(8, (4, 5, 6, 7), per_host=4))
    assert culprits(verdict) == [4, 5, 6, 7]
    assert {one.host for one in verdict.culprits} == {"host1"}


def test_half_of_the_ranks_are_no_stragglers():
    assert silent(moving(4, (0, 2)))


# --- healthy jobs


def once(rank: int, step: int) -> float:
    return 6.0 if (rank, step) == (2, 180) else 0.1


def saves_often(rank: int, step: int) -> float:
    return 0.4 if rank == 0 and step % 5 == 0 else 0.1


def evaluates(rank: int, step: int) -> float:
    return 3.0 if rank == 0 and step % 20 == 0 else 0.1


def tails(rank: int, step: int) -> float:
    return 0.05 * random.Random(step * 7 + rank).paretovariate(1.3)


def a_little(rank: int, step: int) -> float:
    return 0.115 if rank == 1 else 0.1


def spread(rank: int, step: int) -> float:
    return 0.05 * (rank + 1)


def takes_turns(rank: int, step: int) -> float:
    return 0.3 if step % 4 == rank else 0.1


def accumulates(rank: int, step: int) -> float:
    return sum(0.1 + 0.05 * random.Random(step * 40 + rank * 8 + n).random() for n in range(8))


@pytest.mark.parametrize(
    "work", [once, saves_often, evaluates, tails, a_little, spread, takes_turns, accumulates]
)
@pytest.mark.parametrize("steps", [40, 80, 200, 203, 220])
@pytest.mark.parametrize("counted", [True, False])
def test_healthy_job_is_left_in_peace(work: Work, steps: int, counted: bool):
    assert silent(seen(work, steps=steps, counted=counted))


@pytest.mark.parametrize("transfer", [0.0, 0.2, 2.0])
def test_slow_network_is_nobodys_fault(transfer: float):
    assert silent(seen(lambda *_: 0.1, transfer=transfer))


def test_start_is_uneven_and_says_nothing():
    short = Tempo(steps=20, step=0.3, own=0.29)
    assert silent(moving(slow=(2,)).change(2, tempo=short))


def test_rank_that_was_never_faster_is_told_after_a_while():
    always = Tempo(steps=40, step=0.3, own=0.29, usual_own=0.29)
    verdict = verdict_of(moving(slow=(2,)).change(2, tempo=always, age=50.0))
    assert "never been seen faster" in verdict.because
    assert verdict.stalled_seconds == 50.0


@pytest.mark.parametrize("call", ["broadcast", "scatter", "gather", "recv"])
def test_rank_that_hands_out_what_the_others_need_may_always_take_longer(call: str):
    always = Tempo(steps=40, step=0.3, own=0.29, usual_own=0.29)
    scene = moving(slow=(0,)).change(0, tempo=always).change(1, stack=inside(call))
    assert silent(scene)
    assert culprits(verdict_of(scene.change(0, tempo=SLOW))) == [0]


def test_without_steps_only_a_change_is_likely():
    scene = moving(slow=(2,))
    for rank in range(4):
        tempo = msgspec.structs.replace(scene.states[rank].tempo, unit="collective")
        scene.change(rank, tempo=tempo)
    verdict = verdict_of(scene)
    assert "290 ms of its own per collective" in verdict.summary
    assert verdict.confidence is Confidence.LIKELY
    always = msgspec.structs.replace(scene.states[2].tempo, usual_own=0.29)
    assert verdict_of(scene.change(2, tempo=always)).confidence is Confidence.POSSIBLE


def test_stages_of_a_pipeline_may_differ():
    """Ranks of one stage are alike; the longest stage is no straggler among its own."""
    scene = moving(8, (4, 5), layout=grid(1, 4, 2))
    assert silent(scene)


def test_rank_that_became_slow_within_its_stage_is_told():
    assert culprits(verdict_of(moving(8, (4,), layout=grid(2, 1, 4)))) == [4]


def test_role_that_always_took_longer_in_a_job_of_groups_is_not_told():
    always = Tempo(steps=40, step=0.3, own=0.29, usual_own=0.29)
    assert silent(moving(8, (4,), layout=grid(2, 1, 4)).change(4, tempo=always))


@pytest.mark.parametrize(
    "tempo", [Tempo(), Tempo(steps=11, step=0.3, own=0.1), Tempo(steps=40, step=0.9, own=0.1)]
)
def test_ranks_that_do_not_step_together_are_not_compared(tempo: Tempo):
    assert silent(moving(slow=(2,)).change(0, tempo=tempo))


def test_rank_that_is_not_seen_makes_no_other_guilty():
    assert silent(moving(slow=(2,)).change(1, unobserved="its agent died"))
    scene = moving(slow=(2,))
    scene.world_size = 5
    assert silent(scene)


def test_stall_that_follows_wins():
    scene = moving(slow=(2,))
    for rank in (0, 1, 3):
        scene.enter(rank)
    verdict = verdict_of(scene.sleep(2))
    assert (verdict.cause, verdict.slowdown) == (Cause.BUSY_ELSEWHERE, 0.0)


def test_stall_that_begins_is_not_told_as_slowness():
    scene = moving(slow=(2,))
    for rank in (0, 1, 3):
        scene.enter(rank, stalled=2.5)
    assert silent(scene.sleep(2, stalled=2.6))


# --- what the host lacks


def hog(scene: Scene, cores: float = 1.0) -> Scene:
    others = (OtherProcess(777, "python prepare.py", cores),)
    return scene.node("host0", pressure=Pressure(cpu=0.8, others=others))


def test_rank_without_a_core_names_who_has_it():
    scene = hog(moving(slow=(2,)).process(2, delayed=0.5, cpu=0.4))
    verdict = verdict_of(scene)

    assert (verdict.cause, culprits(verdict)) == (Cause.RESOURCE_CONTENTION, [2])
    assert "waits for a free core 50% of the time, competing with python prepare.py (pid 777)" in (
        verdict.summary
    )
    assert any("uses 1 cores" in item.text for item in verdict.evidence)
    assert verdict.slowdown > 0


def test_rank_that_computes_more_is_slow_by_itself_even_if_cores_are_short():
    scene = hog(moving(slow=(2,)).process(2, delayed=0.35, cpu=0.6))
    for rank in (0, 1, 3):
        scene.process(rank, delayed=0.1, cpu=0.2)
    verdict = verdict_of(scene)

    assert (verdict.cause, culprits(verdict)) == (Cause.STRAGGLER, [2])
    [other] = [o for o in verdict.alternatives if o.cause is Cause.RESOURCE_CONTENTION]
    assert "waits for one 35% of the time" in other.decide_by


def test_rank_that_computes_more_but_is_slow_only_for_want_of_a_core():
    scene = hog(moving(slow=(2,)).process(2, delayed=0.6, cpu=0.35))
    for rank in (0, 1, 3):
        scene.process(rank, delayed=0.05, cpu=0.05)
    assert verdict_of(scene).cause is Cause.RESOURCE_CONTENTION


def slightly_slow(delayed: float) -> Scene:
    """A rank that needs a third more than the others, who wait for cores now and then too."""
    scene = hog(job(4))
    for rank in range(4):
        own = 0.157 if rank == 2 else 0.117
        scene.change(rank, tempo=Tempo(steps=58, step=0.174, own=own, usual_own=own))
        scene.process(rank, delayed=delayed if rank == 2 else 0.12)
    return scene


def test_lesser_lag_is_told_where_the_want_of_a_core_explains_it():
    verdict = verdict_of(slightly_slow(delayed=0.34))
    assert (verdict.cause, culprits(verdict)) == (Cause.RESOURCE_CONTENTION, [2])
    assert not is_over(verdict, slightly_slow(delayed=0.34).snapshot())


def on_a_full_host(*cores: int) -> Scene:
    """As measured at a load of 40 on two cores; `cores` are those that rank 3 is bound to."""
    scene = job(4).node("host0", pressure=Pressure(cpu=0.998))
    for rank, own, delayed in ((0, 0.119, 0.06), (1, 0.137, 0.06), (2, 0.121, 0.047)):
        tempo = Tempo(steps=49, step=0.2, own=own, error=0.01, usual_own=own)
        scene.change(rank, tempo=tempo).process(rank, delayed=delayed)
    tempo = Tempo(steps=49, step=0.2, own=0.19, error=0.01, usual_own=0.12, changed_for=12.0)
    return scene.change(3, tempo=tempo).process(3, delayed=0.4, cores=cores)


def test_rank_that_has_less_luck_on_a_full_host_is_not_accused():
    assert silent(on_a_full_host())


def test_rank_that_must_stay_on_a_core_of_a_full_host_is_starved():
    verdict = verdict_of(on_a_full_host(1))
    assert (verdict.cause, culprits(verdict)) == (Cause.RESOURCE_CONTENTION, [3])


def test_want_of_a_core_that_came_after_the_slowness_does_not_explain_it():
    scene = hog(job(4))
    for rank in range(4):
        own = 0.203 if rank == 2 else 0.11
        tempo = Tempo(steps=36, step=0.22, own=own, usual_own=0.11, delayed=0.011)
        scene.change(rank, tempo=tempo).process(rank, delayed=0.45 if rank == 2 else 0.05)
    verdict = verdict_of(scene)
    assert (verdict.cause, culprits(verdict)) == (Cause.STRAGGLER, [2])


@pytest.mark.parametrize("delayed", [0.12, 0.25])
def test_lesser_lag_is_not_told_where_it_may_have_another_reason(delayed: float):
    assert silent(slightly_slow(delayed))


def test_process_on_another_core_is_not_to_blame():
    near = OtherProcess(777, "python prepare.py", 0.3, core=1)
    far = OtherProcess(778, "make", 1.0, core=0)
    scene = moving(slow=(2,)).process(2, delayed=0.5, cores=(1,))
    scene.node("host0", pressure=Pressure(others=(far, near)))
    verdict = verdict_of(scene)
    assert "competing with python prepare.py (pid 777)" in verdict.summary
    assert not any("make" in item.text for item in verdict.evidence)


def test_job_competes_with_itself():
    verdict = verdict_of(moving(slow=(2,)).process(2, delayed=0.5))
    assert verdict.cause is Cause.RESOURCE_CONTENTION
    assert any("the job's own processes compete" in item.text for item in verdict.evidence)


def test_what_all_ranks_lack_alike_makes_no_one_slow():
    scene = hog(moving(slow=(2,)))
    for rank in range(4):
        scene.process(rank, delayed=0.5)
    assert verdict_of(scene).cause is Cause.STRAGGLER


def test_loaded_machine_with_a_job_that_is_well():
    scene = hog(moving())
    for rank in range(4):
        scene.process(rank, delayed=0.6, throttled=0.4)
    assert silent(scene)


def test_short_delay_does_not_explain_a_long_lag():
    assert verdict_of(moving(slow=(2,)).process(2, delayed=0.12)).cause is Cause.STRAGGLER


def test_cpu_limit():
    verdict = verdict_of(moving(slow=(2,)).process(2, throttled=0.6))
    assert verdict.cause is Cause.RESOURCE_CONTENTION
    assert "throttled by the CPU limit of its cgroup 60% of the time" in verdict.summary


@pytest.mark.parametrize(
    ("kind", "words"),
    [("steal", "virtual machines"), ("memory", "memory pressure"), ("io", "I/O pressure")],
)
def test_host_that_lacks_what_the_others_have(kind: str, words: str):
    scene = moving(8, (4, 5, 6, 7), per_host=4)
    pressure = msgspec.convert({kind: 0.5}, Pressure)
    scene.node("host1", pressure=pressure)
    verdict = verdict_of(scene)
    assert verdict.cause is Cause.RESOURCE_CONTENTION
    assert words in verdict.summary
    scene.node("host0", pressure=pressure)
    assert verdict_of(scene).cause is Cause.STRAGGLER


def test_disk_that_others_keep_busy():
    scene = moving(slow=(2,)).node("host0", pressure=Pressure(io=0.6))
    verdict = verdict_of(scene)
    assert verdict.cause is Cause.STRAGGLER
    assert Cause.RESOURCE_CONTENTION in {other.cause for other in verdict.alternatives}
    writes = msgspec.structs.replace(SLOW, place=user("os.fsync(file.fileno())"))
    assert "busy disk" in verdict_of(scene.change(2, tempo=writes)).summary
    scene.change(2, tempo=SLOW).process(2, state="D", waits_in="folio_wait_bit_common")
    verdict = verdict_of(scene)
    assert verdict.cause is Cause.RESOURCE_CONTENTION
    assert "busy disk" in verdict.summary


def test_disk_is_to_blame_when_it_explains_the_delay_wherever_the_rank_is_seen_now():
    scene = moving(slow=(2,)).node("host0", pressure=Pressure(io=0.6))
    delay = SLOW.own - BUSY.own
    for share, cause in ((0.2, Cause.STRAGGLER), (0.8, Cause.RESOURCE_CONTENTION)):
        waits = msgspec.structs.replace(SLOW, disk=share * delay)
        assert verdict_of(scene.change(2, tempo=waits)).cause is cause


def test_who_keeps_the_disk_busy_is_named_and_not_who_uses_a_core():
    kernel = OtherProcess(44, "kworker/1:1H-kblockd", 0.12, 1)
    writers = [OtherProcess(pid, "dd", 0.02, 0, rate) for pid, rate in ((70, 10**7), (71, 10**8))]
    pressure = Pressure(io=0.8, others=(kernel, *writers))
    scene = moving(slow=(2,)).node("host0", pressure=pressure).process(2, state="D")
    summary = verdict_of(scene).summary
    assert "a busy disk, competing with dd (pid 71, 100 MB/s)" in summary
    assert "kworker" not in summary


def test_kernel_that_does_not_tell_delays_leaves_contention_open():
    scene = moving(slow=(2,)).node("host0", pressure=Pressure(unseen=("delays",)))
    assert Cause.RESOURCE_CONTENTION in {a.cause for a in verdict_of(scene).alternatives}


# --- the end of it


def test_it_is_over_when_the_rank_keeps_up():
    verdict = verdict_of(moving(slow=(2,)))
    assert not is_over(verdict, moving(slow=(2,)).snapshot())
    assert is_over(verdict, moving().snapshot())
    assert not is_over(verdict, job(4).snapshot())
    half = msgspec.structs.replace(SLOW, own=0.16)
    assert not is_over(verdict, moving().change(2, tempo=half).snapshot())


def test_chance_decides_who_lacks_a_core_where_many_share_a_few():
    scene = slightly_slow(delayed=0.34)
    others = tuple(OtherProcess(700 + n, "python", 0.1) for n in range(8))
    assert silent(scene.node("host0", pressure=Pressure(cpu=0.95, others=others)))
