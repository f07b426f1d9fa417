"""The general advice in Chinese: what to do for a cause when no record has steps of its own.

Logs rarely tell how a process ended or what it waits for, so there is one text a cause;
`{who}`, `{host}`, `{pid}`, `{place}` and `{op}` are filled in from the verdict.
"""

from unstuck.explain.playbook.facts import Advice, Facts
from unstuck.model.verdict import Cause

_NO_SUCH_SETTING = "不要设置 NCCL_TIMEOUT 或 TORCH_DIST_TIMEOUT：没有任何代码读取它们"
_LONGER = "不要调大超时：{who}不会因为多等就到，任务只会停得更久"
_CASCADE = "不要去查其他 rank 的 `Connection closed by peer`：那只说明{who}已经死了"

_TEXTS: dict[Cause, Advice] = {
    Cause.NETWORK_PARTITION: Advice(
        do=(
            "在另一台主机上执行 `ping -c 3 {address}` 和 `ss -tin dst {address}`",
            "在{host}上执行 `ip -s link`，看链路是否断开、有无错误和丢包，再查交换机",
            "如果一直不通：结束其中一侧，另一侧从检查点继续",
        ),
        dont=(
            "不要调大超时：链路断了，什么都过不去",
            "不要只重启一侧：另一侧还活着，可能写同样的文件",
        ),
    ),
    Cause.NODE_FAILURE: Advice(
        do=(
            "`ping -c 3 {address}`；没有应答就看它的控制台和 `sinfo -R -n {address}`",
            "先排除它继续训练：`sbatch --exclude={address}`，或 --nnodes=MIN:MAX",
            "{host}重新参与任务之前，先看它的内核日志",
        ),
        dont=(
            "不要指望 torchrun 发现：实测中节点失联时它没有察觉",
            "不要在报错的 rank 上找原因：它们只是失去了对端",
        ),
    ),
    Cause.PROCESS_CRASH: Advice(
        do=(
            "修复{who}抛出的错误{place}；其他 rank 只是在等它",
            "如果其他 rank 能走过这一行，先检查{who}的数据",
            "保留每个 rank 的 stderr：`torchrun --log-dir logs -r 3 -t 3 ...`",
        ),
        dont=(
            _CASCADE,
            "不要只在一个 rank 上捕获异常并跳过该 batch：其他 rank 会在下一次集合通信里等它",
        ),
    ),
    Cause.OUT_OF_MEMORY: Advice(
        do=(
            "在{host}上执行 `dmesg -T | grep -i 'killed process'` 和 `nvidia-smi`，"
            "分清是内存还是显存",
            "内存不足：加大内存（Slurm 用 --mem，容器改内存上限），或减少 DataLoader worker",
            "显存不足：减小 batch 或序列长度；只有一个 rank 不足时，限制它的输入长度",
        ),
        dont=(
            "不要每步都调用 empty_cache 或 gc.collect：它们释放不了正在使用的内存",
            "不要只在一个 rank 上捕获并跳过：其他 rank 会在下一次集合通信里等它",
        ),
    ),
    Cause.PROCESS_STOPPED: Advice(
        do=(
            "在{host}上执行 `kill -CONT {pid}`，让它从停下的地方继续",
            "找出是谁停下它的：Ctrl-Z、调度系统挂起、cgroup freezer，或调试器",
        ),
        dont=(
            "不要调大超时：停住的进程不会发出 {op}",
            "不要等 torchrun 重启：它会等停住的 worker 30 秒；先 `kill -9 {pid}`",
        ),
    ),
    Cause.STRAGGLER: Advice(
        do=(
            "在{host}上执行 `py-spy record -d 20 -o slow.svg --pid {pid}`，看时间花在哪里",
            "在{host}上执行 `nvidia-smi -q -d PERFORMANCE`，看是否因温度或功耗降频",
            "把该 rank 换到别的主机：还是慢就查它的数据，不慢就排除{host}",
        ),
        dont=(
            "不要调大超时：每一步的时间都由最慢的 rank 决定",
            "不要分析其他 rank 的集合通信耗时：那只是等待",
        ),
    ),
    Cause.RESOURCE_CONTENTION: Advice(
        do=(
            "在{host}上执行 `top -b -n 1 | head -20` 和 `grep . /proc/pressure/*`，看谁在抢资源",
            "执行 `df -h / /tmp /dev/shm`：磁盘或共享内存是否已满",
            "给每个 rank 固定的核：调低 OMP_NUM_THREADS 或减少 DataLoader worker",
        ),
        dont=(
            "不要增加 DataLoader worker：它们抢的是同样的资源",
            "不要调大超时：任务只会照样慢下去",
        ),
    ),
    Cause.COLLECTIVE_MISMATCH: Advice(
        do=(
            "比对{who}与其他 rank 的调用{place}：算子、形状、dtype 必须一致",
            "让调用无条件执行：没有数据的 rank 传全零张量",
            "确实要按条件执行时，先对条件做 all_reduce，再统一决定",
        ),
        dont=(
            "不要在前后加 barrier：barrier 也是集合通信，同样会错位",
            "不要调大超时：不一致的操作永远完不成",
        ),
    ),
    Cause.ORDER_INVERSION: Advice(
        do=(
            "让所有 rank 以同一顺序发起两个组的集合通信；{who}的顺序相反{place}",
            "如果由两个线程发起，改成一个线程",
        ),
        dont=(
            "不要在中间加 barrier：卡在第一个操作里的 rank 永远走不到",
            "不要调大超时：双方互相等待，不会结束",
        ),
    ),
    Cause.UNEVEN_WORK: Advice(
        do=(
            "让各 rank 的 batch 数相同：sampler 设 drop_last=True，或对步数做 MIN 的 all_reduce",
            "或把循环放进 `with Join([model]):`（不能与 SyncBatchNorm 同用）",
            "检查数据划分：{who}最先用完",
        ),
        dont=("不要在循环里加 barrier：数据用完的 rank 到不了", _LONGER),
    ),
    Cause.RANK_LEFT_EARLY: Advice(
        do=(
            "找出{who}为什么离开{place}：只有它会走到的 return、break 或 exit",
            "统一决定何时停止：每一步对停止标志做 all_reduce",
        ),
        dont=(
            "不要把 `Connection closed by peer` 当成网络故障：是对端自己离开了",
            "不要调大超时：{who}已经离开，不会再来",
        ),
    ),
    Cause.BUSY_ELSEWHERE: Advice(
        do=(
            "在{host}上隔几秒执行两次 `py-spy dump --pid {pid}`，看代码行是否在动",
            "把这项工作分给各 rank，或放到 init_process_group 之前",
            "或在 init_process_group 和每个 new_group 里调大 `timeout`",
        ),
        dont=("不要在它之前加 barrier：其他 rank 只是换个地方等", _NO_SUCH_SETTING),
    ),
    Cause.HOST_DEADLOCK: Advice(
        do=(
            "在{host}上执行 `py-spy dump --native --pid {pid}`，看哪个线程持有锁或 GIL",
            "让等待之前的每条路径都释放锁；子进程改用 spawn 或 forkserver",
            "DataLoader 设 timeout（例如 120），让它报错而不是一直等",
        ),
        dont=(_LONGER, "不要在它之前加 barrier：该 rank 仍然走不出那把锁"),
    ),
    Cause.NEVER_JOINED: Advice(
        do=(
            "在{host}的启动日志里确认{who}是否启动",
            "比对各主机的 MASTER_ADDR、MASTER_PORT、WORLD_SIZE 和 rendezvous id",
            "在 rank 0 监听时，在{host}上执行 `nc -vz $MASTER_ADDR $MASTER_PORT`",
        ),
        dont=(
            "不要调大超时：没有启动的 rank 永远不会来",
            "不要调大 --max-restarts：下一次还是等同一个 rank",
        ),
    ),
    Cause.STORE_LOST: Advice(
        do=(
            "查看 store 所在进程为何结束：{who}日志的最后几行",
            "在{host}上执行 `dmesg -T | grep -i 'killed process'`",
            "重启任务：没有 store 就无法再建立任何进程组",
        ),
        dont=(
            "不要重试 store 调用：服务端不应答时，get 和 wait 会忽略自己的超时",
            "不要去查其他 rank 的 `Broken pipe`：它们只是失去了 store",
        ),
    ),
    Cause.TRANSPORT_STALL: Advice(
        do=(
            "在每台主机上执行 `ss -tin | grep -B1 retrans`，看谁在重传、发给谁",
            "启用巨帧时，在主机之间执行 `ping -M do -s 8972 -c 3 <主机>`",
            "用 NCCL 时单独跑 nccl-tests：也卡住就是网络的问题",
        ),
        dont=(
            "不要找哪个 rank 有错：所有 rank 都已发起这次 {op}",
            "不要因为 NCCL_P2P_DISABLE=1 有效就一直用：变慢，而且故障还在",
        ),
    ),
    Cause.NETWORK_MISCONFIGURATION: Advice(
        do=(
            "在{host}上执行 `getent hosts $(hostname)`：结果不能是 127.x",
            "把 GLOO_SOCKET_IFNAME 和 NCCL_SOCKET_IFNAME 设为其他主机能连到的网卡（`ip -br addr`）",
            "放开主机之间的全部端口：gloo 和 NCCL 随机选端口",
        ),
        dont=(
            "不要设 NCCL_IB_DISABLE=1：socket 用的网卡并不会变",
            "不要用排除法（`^lo,docker`）：没列出的网桥仍会被选中",
        ),
    ),
    Cause.HARDWARE_FAULT: Advice(
        do=(
            "在{host}上执行 `dmesg -T | grep -iE 'xid|nvrm|aer|mce|i/o error'`，看坏的是什么",
            "排除{host}，从最近的检查点继续",
            "`scontrol update nodename={address} state=drain reason=hardware`，下线该节点",
        ),
        dont=(
            "不要在同一台机器上重启：故障还在",
            "不要先重装 torch 或驱动：内核日志会说明坏在哪里",
        ),
    ),
    Cause.SOFTWARE_BUG: Advice(
        do=(
            "在各主机比对 `python -m torch.utils.collect_env`：必须一致",
            "用报错的第一行去搜该库的 issue",
            "换前一个和后一个版本试：能消失的故障就有版本可查",
        ),
        dont=(
            "不要调超时或网络：故障在库里",
            "不要在各主机上混用版本来试：只会多出新的故障",
        ),
    ),
    Cause.TIMEOUT_TOO_SHORT: Advice(
        do=(
            "在 init_process_group 和每个 new_group 里把 `timeout` 调到超过{who}所需的时间{place}",
            "或缩短这项工作：缓存、分片，或放到训练开始之前",
        ),
        dont=(
            _NO_SUCH_SETTING,
            "不要给 all_reduce 传 timeout=：torch 2.13 只有 barrier 接受它",
        ),
    ),
    Cause.UNKNOWN: Advice(
        do=(
            "每台主机选一个 rank 执行 `py-spy dump --pid {pid}`，找出与众不同的那个",
            "看所有 rank 的 stderr 末尾；没有输出的最可疑",
            "保留这些日志：更新版本的 unstuck 也许能判断",
        ),
        dont=(
            "不要在取栈之前重启：进程没了，栈也没了",
            "不要急着调大超时：那只是掩盖停顿，并不能解释它",
        ),
    ),
}


def advice(facts: Facts) -> Advice:
    """Return what to do and what not to try for a verdict's cause, in Chinese.

    Example:
        advice(Facts(verdict)).do[0]  # "在 node7 上执行 `kill -CONT 4711` …"
    """
    text = _TEXTS[facts.verdict.cause]
    words = _words(facts)
    return Advice(
        do=tuple(step.format(**words) for step in text.do),
        dont=tuple(step.format(**words) for step in text.dont),
    )


def _words(facts: Facts) -> dict[str, str]:
    first = facts.first
    place = f"（{first.file.rsplit('/', 1)[-1]}:{first.line}）" if first.file else ""
    return {
        "who": _who(tuple(culprit.rank for culprit in facts.verdict.culprits)),
        "host": f" {first.host} " if first.host else "它所在的主机",
        "address": facts.addresses if first.host else "<主机>",
        "pid": str(first.pid) if first.pid else "<pid>",
        "place": place,
        "op": facts.stuck_op if facts.verdict.stuck else "集合通信",
    }


def _who(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return "出问题的 rank "
    if len(ranks) > 4:
        return f" {len(ranks)} 个 rank（第一个：{min(ranks)}）"
    return f" rank {'、'.join(str(rank) for rank in sorted(ranks))} "
