"""The text of a verdict from logs, English and Chinese side by side; records have their own."""

from msgspec import Struct

from unstuck.model.logs import LogFact

FACTS = {
    LogFact.ONE_ELEMENT: (
        "the collective has one element (a barrier or a flag)",
        "该集合通信只有一个元素（barrier 或标志位）",
    ),
    LogFact.FIRST_COLLECTIVE: ("it is the first collective of the job", "这是任务的第一个集合通信"),
    LogFact.EARLY: ("it is one of the first collectives", "这是最早的几个集合通信之一"),
    LogFact.GATHER_OP: ("it is a gather or a broadcast", "这是 gather 或 broadcast"),
    LogFact.HAD_WORKED: ("earlier collectives had completed", "之前的集合通信都已完成"),
    LogFact.SHARD_GATHER: ("it gathers a sharded parameter", "它在收集分片的参数"),
    LogFact.LARGE_REDUCE: (
        "it reduces many elements, like the gradients of a step",
        "它在规约大量元素，像一步训练的梯度",
    ),
    LogFact.SOME_SILENT: (
        "some ranks wait and others report nothing",
        "部分 rank 在等待，其余 rank 没有报告",
    ),
    LogFact.RANK_0_SILENT: ("rank 0 is not among those that wait", "等待的 rank 中没有 rank 0"),
    LogFact.RANK_0_ALONE: ("rank 0 waits alone", "只有 rank 0 在等待"),
    LogFact.ALL_WAIT: (
        "all ranks wait in the same collective",
        "所有 rank 都在等待同一个集合通信",
    ),
    LogFact.NUMBER_DIFFERS: ("the ranks are at different sequence numbers", "各 rank 的序号不同"),
    LogFact.OP_DIFFERS: ("the ranks are in different operations", "各 rank 执行的操作不同"),
    LogFact.SIZE_DIFFERS: ("the ranks pass tensors of different sizes", "各 rank 给出的大小不同"),
    LogFact.EARLIER_FAILURE: ("another process had failed before", "此前已有进程失败"),
    LogFact.OUT_OF_MEMORY: ("memory ran out", "内存或显存耗尽"),
    LogFact.PREPARING: ("data was still being prepared", "数据仍在准备中"),
    LogFact.SAVING: ("a checkpoint was being saved", "正在保存检查点"),
    LogFact.EVALUATING: ("an evaluation was running", "正在评估"),
    LogFact.GENERATING: ("text was being generated", "正在生成文本"),
    LogFact.LOADING: ("weights were being loaded", "正在加载权重"),
    LogFact.COMPILING: ("code was being compiled", "正在编译"),
    LogFact.AT_END: ("training or an epoch had just ended", "训练或一个 epoch 刚刚结束"),
    LogFact.QUEUE_DIFFERS: (
        "the ranks have queued different numbers of operations",
        "各 rank 排队的操作数不同",
    ),
    LogFact.REFUSED: ("the connection was refused", "连接被拒绝"),
    LogFact.UNREACHABLE: ("the address did not answer", "该地址没有应答"),
    LogFact.PEER_CLOSED: ("a peer closed its connection", "对端关闭了连接"),
    LogFact.NO_ROUTE: ("there is no route to the host", "没有到该主机的路由"),
    LogFact.LOOPBACK: (
        "a loopback address is given for another host",
        "本应是其他主机的位置出现了回环地址",
    ),
    LogFact.LINK_LOCAL: ("a link-local address was used", "使用了链路本地地址"),
    LogFact.DEVICE_ASSERT: ("a check inside a GPU kernel failed", "GPU kernel 内部的检查失败"),
    LogFact.SETTING_UP: (
        "groups were still being made, and nothing had worked before",
        "还在创建进程组，此前没有任何通信成功",
    ),
    LogFact.FEWER_JOINED: ("fewer processes joined than expected", "加入的进程少于预期"),
    LogFact.MORE_JOINED: ("more processes joined than expected", "加入的进程多于预期"),
    LogFact.KILLED: ("a process was killed by signal 9", "有进程被信号 9 杀死"),
    LogFact.TRAINING: ("training steps had completed before", "此前训练步在正常进行"),
    LogFact.BRACKETED: ("an IPv6 address was given in brackets", "IPv6 地址带着方括号传入"),
    LogFact.ODD_ADDRESS: ("no host can have this address", "该地址不属于任何主机"),
    LogFact.DISK_FULL: ("a disk is full", "磁盘已满"),
    LogFact.ADDRESS_CHANGED: ("the address of a network card changed", "网卡地址发生了变化"),
    LogFact.PORT_ERROR: ("a network port went down", "网卡端口曾断开"),
    LogFact.INIT_ERROR: ("CUDA could not be initialised", "CUDA 初始化失败"),
    LogFact.NOT_READY: ("CUDA reports that the system is not ready", "CUDA 报告系统尚未就绪"),
    LogFact.CONNECTION_ABORT: ("the host itself aborted the connection", "本机放弃了连接"),
    LogFact.SHORT_LIMIT: ("the timeout was a minute or less", "时限只有一分钟或更短"),
    LogFact.DEFAULT_GROUP: ("the key belongs to init_process_group", "key 属于默认进程组"),
}
"""Each fact as a clause that follows `these lines show:`."""


class Words(Struct, frozen=True):
    """All phrases of one language; what culprits do is in `diagnose/wording.py`."""

    lang: str
    facts: dict[LogFact, str]
    comma: str
    shows: str
    only_consequences: str
    raised_first: str
    others: str
    undecided: str
    one_cause: str
    most_frequent: str
    exception: str
    look_first: str


EN = Words(
    lang="en",
    facts={fact: en for fact, (en, _) in FACTS.items()},
    comma=", ",
    shows="these lines show: {facts}",
    only_consequences=(
        "these logs contain only consequences, not the failure itself; look at the log of {where}"
    ),
    raised_first="it raised an exception first; what the other ranks report came after",
    others="the other ranks",
    undecided="this message has several causes, and nothing in these logs decides between them",
    one_cause="this message has one known cause",
    most_frequent=(
        "the most frequent cause of this message; nothing in these logs decides between its causes"
    ),
    exception="an exception ended one rank",
    look_first=(
        "look at {ranks} first: the end of its own log, and on a job that still hangs "
        "`py-spy dump --pid <pid>`"
    ),
)

ZH = Words(
    lang="zh",
    facts={fact: zh for fact, (_, zh) in FACTS.items()},
    comma="、",
    shows="日志显示：{facts}",
    only_consequences="这些日志里只有后果，没有故障本身；请查看 {where} 的日志",
    raised_first="它最先抛出异常；其他 rank 的报错都在其后",
    others="其他 rank",
    undecided="这条消息有多种原因，这些日志无法判定是哪一种",
    one_cause="这条消息只有一种已知原因",
    most_frequent="这是该消息最常见的原因；这些日志无法进一步判定",
    exception="一个 rank 因异常退出",
    look_first="先看 {ranks}：它自己日志的结尾；若任务仍挂着，再用 `py-spy dump --pid <pid>`",
)

LANGUAGES = {"en": EN, "zh": ZH}
