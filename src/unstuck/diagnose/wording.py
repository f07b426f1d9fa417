"""What a culprit does, in words: the one place where a `Doing` becomes a phrase, in both languages.

Phrases read on after "rank 2". `{field}` is a field of the value, `{field:text}` has a text for
where it is empty, and what stands in brackets is left out where one of its fields is empty.
"""

import re
import string
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

from msgspec import structs

from unstuck.diagnose.text import seconds_text
from unstuck.model import doing as d
from unstuck.model.host import OtherProcess
from unstuck.model.neighbour import Neighbour

MOST_PROCESSES = 4
_LANGUAGES = ("en", "zh")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_SECTION = (
    "[ in section {section}][, {overdue} past its deadline][, while handling {handling}]",
    "[（{section} 段内）][，已超出时限 {overdue}][，当时正在处理异常 {handling}]",
)
_PHRASES: dict[type[d.Doing] | StrEnum, tuple[str, str]] = {
    d.Asleep: ("is asleep", "在休眠"),
    d.Computing: ("is running its own code", "在运行自己的代码"),
    d.HoldsGil: (
        "holds the GIL in a C call, so none of its Python threads can run",
        "在 C 调用中持有 GIL，它的 Python 线程都无法运行",
    ),
    d.WaitsForLock: ("waits for a lock", "在等一把锁"),
    d.Input.QUEUE: ("waits for an item of a queue", "在等队列里的数据"),
    d.Input.REQUEST: ("waits for a request", "在等请求"),
    d.WaitsForThread: (
        "waits for another thread of its process",
        "在等本进程的另一个线程",
    ),
    d.WaitsForFileLock: (
        "waits for the lock on {path:a file}[, held by process {holders}]",
        "在等文件锁[（{path}）][，持有者是进程 {holders}]",
    ),
    d.Child.STOPPED: (
        "waits for its child process {processes}, which is stopped",
        "在等子进程 {processes}，而该子进程已被暂停",
    ),
    d.Child.LOCKED: (
        "waits for its child process {processes}, which is itself waiting for a lock",
        "在等子进程 {processes}，而该子进程自己也在等锁",
    ),
    d.Child.EXIT: (
        "waits for its child process {processes} to exit",
        "在等子进程 {processes} 退出",
    ),
    d.Child.DATA: (
        "waits for data from its child process {processes}",
        "在等子进程 {processes} 的数据",
    ),
    d.WaitsForReader: (
        "is blocked writing to {pipe:a pipe}, which is full[; process {readers} should read it]",
        "阻塞在写管道上[（{pipe}）]：管道已满[，应由进程 {readers} 读取]",
    ),
    d.WaitsForWorkers: ("waits for its DataLoader workers", "在等它的 DataLoader worker"),
    d.WaitsForDisk: (
        "waits for a disk or network file system (uninterruptible)",
        "在等磁盘或网络文件系统（不可中断）",
    ),
    d.WaitsForStore: ("waits for the job's store in {call}", "在 {call} 中等任务的 store"),
    d.Source.PIPE: ("waits for data from a pipe", "在等管道的数据"),
    d.Source.SOCKET: ("waits for data from a socket", "在等 socket 的数据"),
    d.Source.CHILD: ("waits for a child process", "在等子进程"),
    d.Source.ANY: ("waits for data from a pipe or socket", "在等管道或 socket 的数据"),
    d.Resource.CORE: (
        "waits for a free core {share} of the time[, competing with {taker}]",
        "{share} 的时间在等空闲的核[，与 {taker} 争抢]",
    ),
    d.Resource.QUOTA: (
        "is throttled by the CPU limit of its cgroup {share} of the time",
        "{share} 的时间被 cgroup 的 CPU 限额限流",
    ),
    d.Resource.STEAL: (
        "is on a host that loses its cores to other virtual machines {share} of the time",
        "所在主机 {share} 的时间把核让给了其他虚拟机",
    ),
    d.Resource.MEMORY: (
        "waits for memory: its host is under memory pressure {share} of the time",
        "在等内存：所在主机 {share} 的时间内存紧张",
    ),
    d.Resource.DISK: (
        "waits for a busy disk[, competing with {taker}]; its host is under I/O pressure "
        "{share} of the time",
        "在等繁忙的磁盘[，与 {taker} 争抢]；所在主机 {share} 的时间 I/O 紧张",
    ),
    d.Unclear: ("has not arrived, and nothing shows why", "没有到达，也看不出原因"),
    d.IssuedLast: (
        "has issued {op:no collective}[ #{number} of group {group} and nothing after it]",
        "发起的最后一个操作：{op:无}[（第 {number} 号，组 {group}）]",
    ),
    d.DeviceStopped: (
        "has a GPU that stopped: it completed {completed:0} operations of {group}, others {others}",
        "的 GPU 停止执行：在 {group} 中完成了 {completed:0} 个操作，其他 rank 完成了 {others} 个",
    ),
    d.Runs: (
        "runs {operation}[ as #{number} of group {group}]",
        "[在组 {group} 的第 {number} 号]执行的是 {operation}",
    ),
    d.InCall: ("is in {call}[ and has not called {skipped}]", "停在 {call}[，没有调用 {skipped}]"),
    d.Unanswered: (
        "waits in {op} #{ordinal} with {peer:any rank} (tag {tag}), which has no counterpart",
        "停在 {op} 第 {ordinal} 号（对端 {peer:任意 rank}，tag {tag}），没有与之配对的操作",
    ),
    d.Unposted: (
        "is in a collective[ (#{number} of group {group})] and has not posted the counterpart of "
        "a peer's message",
        "停在集合通信里[（组 {group} 第 {number} 号）]，没有发起对端在等的收发",
    ),
    d.LeftLoop: (
        "has left the loop at {loop} and {instead}",
        "已离开 {loop} 处的循环，{instead}",
    ),
    d.StillInLoop: (
        "is still in its loop[ at {loop}], which most ranks have left",
        "还在[ {loop} 处的]循环里，而大多数 rank 已经离开",
    ),
    d.Before.IMPORT: ("has not imported torch yet: it {instead}", "还没有导入 torch：{instead}"),
    d.Before.INIT: (
        "has not called init_process_group: it {instead}",
        "还没有调用 init_process_group：{instead}",
    ),
    d.Raised: ("raised {error}", "抛出 {error}"),
    d.During.WORK: ("was killed by {signal}", "被 {signal} 终止"),
    d.During.LINE: ("was killed by {signal} in this line", "在这一行被 {signal} 终止"),
    d.During.SHUTDOWN: (
        "had finished its work and was killed by {signal} during interpreter shutdown",
        "工作已完成，在解释器退出过程中被 {signal} 终止",
    ),
    d.During.AFTER_DESTROY: (
        "had finished its work and destroyed its process groups, and was killed by {signal} "
        "during interpreter shutdown",
        "工作已完成、进程组已销毁，在解释器退出过程中被 {signal} 终止",
    ),
    d.Exited: ("ended with exit code {code}", "以退出码 {code} 结束"),
    d.Ending.EARLY: (
        "ended successfully while others still needed it",
        "在其他 rank 还需要它时正常退出",
    ),
    d.Ending.LOOP: (
        "reached the end of its loop while others still needed it",
        "在其他 rank 还需要它时走完了自己的循环",
    ),
    d.Ending.UNJOINED: (
        "ended successfully without joining the process group",
        "没有加入进程组就正常退出",
    ),
    d.Ending.STORE: (
        "ended, and the job's store, which it hosted, with it",
        "已结束，由它承载的 store 也随之消失",
    ),
    d.Ending.FIRST: ("was the first to end", "最先结束"),
    d.Ending.VANISHED: (
        "disappeared without an error or an exit code",
        "进程消失，没有报错，也没有退出码",
    ),
    d.LostLauncher: (
        "lost its launcher, which was killed by {signal}",
        "失去了启动器：启动器被 {signal} 终止",
    ),
    d.Hold.SIGNAL: ("is stopped by a signal (state T)", "被信号暂停（状态 T）"),
    d.Hold.FREEZER: ("is frozen by its cgroup", "被 cgroup 冻结"),
    d.Hold.DEBUGGER: ("is held by a debugger (state t)", "被调试器停住（状态 t）"),
    d.Contact.SILENT: ("is on {host}, which has gone silent", "在 {host} 上，该主机没有任何消息"),
    d.Contact.FROZEN: (
        "is on {host}, which answers but whose processes do not run",
        "在 {host} 上，该主机有应答，但进程不在运行",
    ),
    d.Contact.ONE_WAY: (
        "is on {host}, which can be heard but not reached",
        "在 {host} 上，收得到该主机的消息，但发不过去",
    ),
    d.Contact.BACK: (
        "is on {host}, which was cut off, kept running and is back",
        "在 {host} 上，该主机曾断网，一直在运行，现已恢复",
    ),
    d.NeverSeen: ("was never seen in this job", "从未在任务中出现"),
    d.Slow: (
        "needs {own} of its own per {unit}, the others {others}[: it {lacks}]",
        "每个 {unit} 自身耗时 {own}，其他 rank {others}[：{lacks}]",
    ),
    d.NeedsLonger: (
        "needs up to {longest} at {place}, but the timeout is {limit}",
        "在 {place} 最长需要 {longest}，而超时只有 {limit}",
    ),
    d.Work.PREPARING: ("was still preparing data", "仍在准备数据"),
    d.Work.SAVING: ("was saving", "正在保存"),
    d.Work.EVALUATING: ("was evaluating", "正在评估"),
    d.Work.GENERATING: ("was generating", "正在生成"),
    d.Work.LOADING: ("was loading weights", "正在加载权重"),
    d.Work.COMPILING: ("was compiling", "正在编译"),
    d.Absent: (
        "did not arrive[{gave_up} before the others gave up]",
        "[{gave_up}在其他 rank 放弃等待之前]没有到达",
    ),
    d.Silent: ("reports nothing while {waiting} wait", "没有报告，而 {waiting} 在等待"),
    d.Behind: (
        "is behind: at {op} number {number}, others at {most}",
        "落后：停在 {op} 第 {number} 号，其他 rank 在第 {most} 号",
    ),
    d.Queued: (
        "is behind: {number} operations queued, others more",
        "落后：排队 {number} 个操作，其他 rank 更多",
    ),
    d.Reports: ("reports the failure", "报告了该故障"),
}


class _Filler(string.Formatter):
    """Formats `{field:text}` as the field, or as the text where the field is empty."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        return value or format_spec

    def fill(self, template: str, values: Mapping[str, str | None]) -> str:
        def optional(found: re.Match[str]) -> str:
            named = [name for _, name, _, _ in self.parse(found[1]) if name]
            return "" if any(values[name] is None for name in named) else found[1]

        return self.vformat(_OPTIONAL.sub(optional, template), (), values)


_FILLER = _Filler()


def phrase(doing: d.Doing, lang: str = "en") -> str:
    """Put into words what a rank does; the phrase reads on after "rank 2".

    Example:
        >>> phrase(d.WaitsForFileLock("/data/index", (Neighbour(77, "rsync"),)))
        'waits for the lock on /data/index, held by process 77 (rsync)'
    """
    fields = structs.asdict(doing)
    texts = _PHRASES[fields["how"] if "how" in fields else type(doing)]
    template, section = (pair[_LANGUAGES.index(lang)] for pair in (texts, _SECTION))
    values = {name: _value(name, value, lang) for name, value in fields.items()}
    return _FILLER.fill(template + section, values)


def processes_text(found: Sequence[Neighbour]) -> str:
    """Name processes by pid and name: `77 (rsync), 78`."""
    names = [f"{one.pid} ({one.name})" if one.name else str(one.pid) for one in found]
    more = [f"{len(names) - MOST_PROCESSES} more"] if len(names) > MOST_PROCESSES else []
    return ", ".join(names[:MOST_PROCESSES] + more)


def time_text(seconds: float) -> str:
    """Write a time that may be short: in milliseconds below one second."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else seconds_text(seconds)


def _value(name: str, value: Any, lang: str) -> str | None:
    """Write one field; None where it is empty."""
    if name == "peer":
        return f"rank {value}" if value >= 0 else None
    if name in ("code", "tag"):
        return str(value)
    return _written(value, lang, share=name == "share") if value else None


def _written(value: Any, lang: str, *, share: bool) -> str:
    match value:
        case True:
            return ""
        case d.Doing():
            return phrase(value, lang)
        case tuple():
            return processes_text(cast("tuple[Neighbour, ...]", value))
        case OtherProcess():
            rate = f", {value.disk / 1e6:.0f} MB/s" if value.disk else ""
            return f"{value.name} (pid {value.pid}{rate})"
        case float():
            return f"{value:.0%}" if share else time_text(value)
        case _:
            return str(value)
