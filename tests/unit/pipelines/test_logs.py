"""Logs as they come out of jobs, explained with the records that ship."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import unstuck
from unstuck.model.verdict import Cause, Confidence
from unstuck.pipelines.logs import explain, explain_text

GOLDEN = Path(__file__).parents[2] / "golden" / "logs"
EXPECTED: dict[str, Any] = tomllib.loads((GOLDEN / "expected.toml").read_text())


def log(name: str) -> str:
    folder = GOLDEN / name
    return str(folder if folder.is_dir() else folder.with_suffix(".log"))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_golden_log_is_explained_as_expected(name: str):
    found = explain([log(name)])
    wanted = EXPECTED[name]
    causes = wanted["cause"] if isinstance(wanted["cause"], list) else [wanted["cause"]]
    verdict = found.verdict
    assert (str(verdict.cause) if verdict else "none") in causes
    if verdict is not None:
        assert sorted(c.rank for c in verdict.culprits) == wanted["culprits"]
        assert all(item.file and item.line for item in verdict.evidence)
        assert verdict.do


def test_without_hyperscan_every_golden_log_is_explained_alike(monkeypatch: pytest.MonkeyPatch):
    logs = [log(name) for name in EXPECTED]
    fast = [explain([path]).verdict for path in logs]
    monkeypatch.setitem(sys.modules, "hyperscan", None)

    assert [explain([path]).verdict for path in logs] == fast


def test_every_golden_log_is_expected():
    names = {path.stem for path in GOLDEN.iterdir()} - {"expected"}
    assert names == set(EXPECTED)


def test_what_is_in_no_record_is_shown_apart_and_decides_nothing():
    found = explain_text("world_size=2\n[rank1]: my.lib.OddError: reactor 7 is cold\n")
    assert found.verdict is None
    (cluster,) = found.unknown
    assert (cluster.exception, cluster.first.rank) == ("my.lib.OddError", 1)


def test_the_rank_that_reports_a_mismatch_is_not_accused_of_it():
    found = explain_text(
        "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running "
        "collective: CollectiveFingerPrint(SequenceNumber=8, OpType=ALLREDUCE, TensorShape=[4]), "
        "but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=8, "
        "OpType=BROADCAST, TensorShape=[4]).\n"
    )
    assert found.verdict is not None
    assert (found.verdict.cause, found.verdict.culprits) == (Cause.COLLECTIVE_MISMATCH, ())


LAUNCHER = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {}) "
ENDED = LAUNCHER + "local_rank: {} (pid: {}) of binary: /opt/venv/bin/python\n"
STOPPED = "W0526 torch/elastic/api.py:900] Sending process 78 closing signal SIGTERM\n"


@pytest.mark.parametrize(
    "text",
    [
        ENDED.format(1, 0, 77),
        "KeyError: 'a'\nValueError: no such layer\n" + ENDED.format(1, 0, 77),
        "ModuleNotFoundError: No module named 'x'\n[2024-06-14 01:51:54,038] [ERROR] "
        "[launch.py:325:sigkill_handler] ['python3', 'a.py'] exits with return code = 1\n",
        ENDED.format(1, 0, 77) + ENDED.format(1, 1, 78),
        STOPPED + ENDED.format(1, 0, 77),
    ],
    ids=["code alone", "two exceptions", "deepspeed", "all alike", "peers were stopped"],
)
def test_a_launchers_word_on_a_plain_exit_is_no_failure_of_the_job(text: str):
    assert explain_text(text).verdict is None


@pytest.mark.parametrize(
    "text",
    [
        ENDED.format(1, 0, 77) + ENDED.format(-9, 1, 78),
        "[rank0]: x\n[rank1]: my.OddError: cold\n" + ENDED.format(1, 1, 77),
        "torch.distributed.OddError: peer is gone\n" + ENDED.format(1, 1, 77),
    ],
    ids=["one was killed", "one rank's own error", "an error about peers"],
)
def test_a_plain_exit_with_signs_of_more_is_one(text: str):
    assert explain_text(text).verdict is not None


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "with zero_first(is_main_process()):",
            "[3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: Socket Timeout",
        ),
        (
            "self.save_checkpoint(epoch)",
            "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
            "waiting 1800000ms for recv operation to complete",
        ),
    ],
)
def test_the_traceback_above_a_wait_says_that_another_rank_is_busy(code: str, message: str):
    frame = '[rank3]:   File "/job/train.py", line 61, in main\n'
    text = f"{frame}[rank3]:     {code}\n[rank3]: RuntimeError: {message}\n"
    verdict = explain_text(text).verdict
    assert verdict is not None
    assert verdict.cause is Cause.BUSY_ELSEWHERE
    assert 3 not in [culprit.rank for culprit in verdict.culprits]


def test_a_setting_that_does_nothing_is_pointed_out():
    found = explain_text("export NCCL_TIMEOUT=7200\ntorchrun train.py\n")
    assert found.verdict is None
    (note,) = found.settings
    assert note.line == 1
    assert note.advice


def test_chinese_texts_come_from_the_record():
    text = "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 2000 ms\n"
    english, chinese = (explain_text(text, lang=lang).verdict for lang in ("en", "zh"))
    assert english is not None
    assert chinese is not None
    assert english.cause == chinese.cause
    assert any("\u4e00" <= sign <= "\u9fff" for sign in chinese.do[0] + chinese.dont[0])


def test_the_package_itself_explains_a_text():
    found = unstuck.explain("[Rank 0]: Ranks 2 failed to pass monitoredBarrier in 2000 ms\n")
    assert found.verdict is not None
    assert [c.rank for c in found.verdict.culprits] == [2]


def test_a_training_script_that_imports_unstuck_pays_for_none_of_it():
    code = (
        "import sys, unstuck; print({'msgspec', 'hyperscan', 'unstuck.explain'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_a_watchdogs_line_in_two_pieces_loses_no_field():
    found = explain_text(waits((1, 2), 4).replace("OpType", "OpTy\npe"))
    fields = [match.fields for match in found.matches]
    assert [one["rank"] for one in fields] == ["1", "2"]
    assert all((one["op"], one["numel_out"]) == ("BROADCAST", "112") for one in fields)


def waits(ranks: tuple[int, ...], number: int, op: str = "BROADCAST", size: int = 112) -> str:
    return "".join(
        f"[rank{rank}]:[E424 01:11:21.160832730 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType={op}, "
        f"NumelIn={size}, NumelOut={size}, Timeout(ms)=1800000) ran for 1800010 milliseconds\n"
        for rank in ranks
    )


def test_all_but_rank_0_in_an_early_collective_wait_for_what_only_rank_0_does():
    verdict = explain_text(waits((1, 2, 3), 4)).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.confidence) == (Cause.BUSY_ELSEWHERE, Confidence.POSSIBLE)
    assert [culprit.rank for culprit in verdict.culprits] == [0]


@pytest.mark.parametrize(
    "text",
    [waits((0, 1, 2), 4), waits((1, 2, 3), 4000), waits((1, 2, 3), 1), waits((1, 3), 1, size=1)],
    ids=["rank 0 waits too", "in mid-training", "nothing had worked before", "others miss, too"],
)
def test_else_rank_0_is_not_said_to_be_busy(text: str):
    verdict = explain_text(text).verdict
    assert verdict is not None
    assert verdict.cause is not Cause.BUSY_ELSEWHERE


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (waits((1, 2), 372981, "ALLREDUCE", 1), Cause.BUSY_ELSEWHERE),
        (waits((0,), 3, "ALLREDUCE", 1), Cause.BUSY_ELSEWHERE),
        (waits((1, 3), 1, "ALLREDUCE", 1), Cause.UNKNOWN),
        (waits((0, 1, 3), 26655, "ALLREDUCE", 304640), Cause.UNEVEN_WORK),
        (waits((0, 1, 3), 1, "ALLREDUCE", 304640), Cause.UNKNOWN),
        (waits((0, 1, 3), 700, "BROADCAST", 4096), Cause.UNEVEN_WORK),
        (waits((0, 1, 3), 700, "_ALLGATHER_BASE", 4096), Cause.COLLECTIVE_MISMATCH),
    ],
    ids=[
        "a barrier in mid-training",
        "a barrier at the start",
        "the first of all",
        "gradients",
        "gradients that never worked",
        "a broadcast",
        "a sharded parameter",
    ],
)
def test_the_stuck_operation_says_what_the_missing_rank_may_do(text: str, cause: Cause):
    verdict = explain_text(text).verdict
    assert verdict is not None
    assert (verdict.cause, verdict.confidence) == (cause, Confidence.POSSIBLE)
    assert verdict.alternatives


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("113 - No route to host", Cause.NETWORK_PARTITION),
        ("110 - Connection timed out", Cause.NETWORK_MISCONFIGURATION),
        ("111 - Connection refused", Cause.NEVER_JOINED),
    ],
)
def test_the_errno_says_why_the_store_is_not_reached(reason: str, cause: Cause):
    line = "[W socket.cpp:558] [c10d] The client socket has failed to connect to [node-1]:1234 "
    verdict = explain_text(f"{line}(errno: {reason}).\n").verdict
    assert verdict is not None
    assert verdict.cause is cause


def test_an_xid_that_names_the_one_before_it_is_that_fault():
    line = "kernel: NVRM: Xid (PCI:0000:5e:00): 45, pid=40121, name=python, Ch 00000008{}\n"
    first = explain_text(line.format(" caused by previous Xid 149")).verdict
    assert first is not None
    assert first.cause is Cause.HARDWARE_FAULT
    alone = explain_text(line.format("")).verdict
    assert alone is not None
    assert alone.cause is Cause.PROCESS_CRASH


def test_the_exit_of_a_process_that_raised_a_root_is_no_earlier_failure():
    text = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running "
        "collective: CollectiveFingerPrint(SequenceNumber=485, OpType=ALLREDUCE, "
        "TensorShape=[25]), but Rank 0 is running collective: CollectiveFingerPrint("
        "SequenceNumber=485, OpType=BROADCAST)\n" + ENDED.format(1, 0, 77)
    )
    verdict = explain_text(text).verdict
    assert verdict is not None
    assert verdict.cause is Cause.COLLECTIVE_MISMATCH


@pytest.mark.parametrize(
    "key", ["", ", keys: /none/torchelastic/role_info/0", ", keys: /default_pg/0//54//cpu//0/2"]
)
def test_a_key_that_nobody_wrote_means_that_somebody_did_not_come(key: str):
    line = f"torch.distributed.DistStoreError: wait timeout after 900000ms{key}\n"
    verdict = explain_text(line).verdict
    assert verdict is not None
    assert verdict.cause is Cause.NEVER_JOINED


def test_a_job_that_was_interrupted_by_hand_did_not_fail():
    text = (
        "WARNING:torch.distributed.elastic.agent.server.api:Received 2 death signal, shutting down "
        "workers\nWARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4797 "
        "closing signal SIGINT\n"
    )
    assert explain_text(text).verdict is None


GONE = (
    "[rank1]:[W1114 06:50:32.12 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=3, "
    "addr=[node1]:3333, remote=[node0]:29500): Broken pipe\n"
)


def test_ranks_that_find_the_store_gone_after_the_end_are_no_failure():
    assert explain_text("world_size=2\nTraining complete.\n" + GONE).verdict is None
    verdict = explain_text("world_size=2\nstep 7 loss 2.3\n" + GONE).verdict
    assert verdict is not None
    assert verdict.cause is Cause.STORE_LOST


def test_an_internal_error_beside_a_lost_peer_says_that_somebody_is_gone():
    text = (
        "NCCL error in: x/ProcessGroupNCCL.cpp:1275, internal error, NCCL version 2.14.3\n"
        "ncclInternalError: Internal check failed.\nLast error:\n"
        "Net : Connection closed by remote peer node-3<50260>\n"
    )
    verdict = explain_text(text).verdict
    assert verdict is not None
    assert verdict.cause is Cause.PROCESS_CRASH


def test_one_wrapped_line_is_put_together_where_that_makes_a_known_message():
    text = (
        "starting 4 ranks\nRuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/"
        "tcp/device.cc:83] ifa != nullptr. Unable to find add\nress for: ib0\nbye\n"
    )
    verdict = explain_text(text).verdict
    assert verdict is not None
    assert verdict.records[0] == "gloo/no-interface"
    assert verdict.evidence[0].line == 2


def test_a_card_that_nccl_leaves_out_is_no_failure():
    text = (
        "node-4:21:90 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n"
        "node-4:21:90 [0] NCCL INFO NET/IB : No device found.\n"
        "node-4:21:90 [0] NCCL INFO Using network Socket\n"
    )
    assert explain_text(text).verdict is None


def test_chinese_advice_has_no_english_where_no_record_answers():
    text = (
        "[rank0]: x\n[rank1]: my.OddError: cold\n[rank0]: RuntimeError: [/pytorch/third_party/gloo/"
        "gloo/transport/tcp/pair.cc:544] Connection closed by peer [10.0.0.1]:21932\n"
    )
    english, chinese = (explain_text(text, lang=lang).verdict for lang in ("en", "zh"))
    assert english is not None
    assert chinese is not None
    assert english.records == ()
    assert len(english.do) > 0
    assert len(chinese.do) == len(english.do)
    assert len(chinese.dont) == len(english.dont)
    assert not any(re.search(r"(?:[A-Za-z]+ ){5}", step) for step in (*chinese.do, *chinese.dont))


HOSTS = "c000001: FileNotFoundError: [Errno 2] No such file: 'idx.npy'\n"
FRAME = 'c000002:   File "/job/data.py", line 35, in build\n'


def test_an_exception_on_one_of_several_hosts_is_a_crash_there():
    verdict = explain_text(HOSTS + FRAME).verdict
    assert verdict is not None
    assert verdict.cause is Cause.PROCESS_CRASH
    assert (verdict.evidence[0].source, verdict.evidence[0].role) == ("c000001", "root")


@pytest.mark.parametrize(
    "text",
    [
        HOSTS,
        HOSTS + HOSTS.replace("c000001", "c000002"),
        HOSTS + "c2: x\n",
        HOSTS + "layer1: Linear\n",
    ],
    ids=["one host", "alike on all", "no second traceback", "another name"],
)
def test_an_exception_on_all_hosts_is_the_programs_own(text: str):
    assert explain_text(text).verdict is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_bare_barrier_timeout_finds_its_record_and_what_to_look_for_next(lang: str):
    message = "RuntimeError: [torch.distributed] Barrier timeout after 600000 ms"
    verdict = explain_text(message, lang=lang).verdict
    assert verdict is not None
    assert verdict.records[0] == "pytorch/distributed-barrier-timeout"
    assert verdict.confidence is Confidence.POSSIBLE
    assert "unstuck explain" in verdict.do[0]


def test_the_rank_that_does_not_complain_of_a_barrier_is_the_one_to_look_at():
    message = "RuntimeError: [torch.distributed] Barrier timeout after 600000 ms"
    text = "world_size=4\n" + "".join(f"[rank{rank}]: {message}\n" for rank in (0, 1, 3))
    verdict = explain_text(text).verdict
    assert verdict is not None
    assert [culprit.rank for culprit in verdict.culprits] == [2]


FOUNDING = "RuntimeError: [torch.distributed] Barrier timeout after 600000 ms"


@pytest.mark.parametrize("ranks", [(), (0, 1, 3)])
def test_barrier_timeout_that_somebody_else_words_gets_its_record(ranks: tuple[int, ...]):
    lines = [f"[rank{rank}]: {FOUNDING}" for rank in ranks] or [FOUNDING]
    end = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED"
    found = explain_text("\n".join([*lines, *([end] if ranks else [])]))

    assert found.verdict is not None
    assert found.verdict.records[0] == "pytorch/distributed-barrier-timeout"
    assert "Look for the rank that is missing" in found.verdict.do[0]
    assert found.verdict.alternatives
    assert [c.rank for c in found.verdict.culprits] == ([2] if ranks else [])


REMOTE = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited "
    "or there was a network error, NCCL version 2.21.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting."
)
WRAPS = '  File "/lib/distributed/utils.py", line 281, in _verify_param_shape_across_processes\n'


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (REMOTE, Cause.PROCESS_CRASH),
        (
            f"Traceback (most recent call last):\n{WRAPS}    f(x)\n{REMOTE}",
            Cause.NETWORK_MISCONFIGURATION,
        ),
    ],
)
def test_peer_that_is_gone_before_anything_worked_was_rather_never_reached(log: str, cause: Cause):
    verdict = explain_text(log).verdict

    assert verdict is not None
    assert verdict.cause is cause


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("device-side assert triggered", Cause.PROCESS_CRASH),
        ("an illegal memory access was encountered", Cause.SOFTWARE_BUG),
    ],
)
def test_kernel_that_checks_its_input_blames_the_program(error: str, cause: Cause):
    log = (
        "[rank0]:[E ProcessGroupNCCL.cpp:1414] [PG 0 Rank 0] Process group watchdog thread "
        f"terminated with exception: CUDA error: {error}"
    )
    verdict = explain_text(log).verdict

    assert verdict is not None
    assert verdict.cause is cause
