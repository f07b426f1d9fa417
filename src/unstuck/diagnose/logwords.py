"""What a verdict from logs says, in each language; records bring their own texts."""

from msgspec import Struct

from unstuck.model.log import LogFact


class Words(Struct, frozen=True):
    """All phrases of one language. In `facts` and `doing` the rank or the line comes before."""

    facts: dict[LogFact, str]
    doing: dict[LogFact, str]
    shows: str
    only_consequences: str
    raised_first: str
    others: str
    undecided: str
    one_cause: str
    most_frequent: str
    exception: str
    did_not_come: str
    silent: str
    behind: str
    queue: str
    was_in: str
    raised: str
    signal: str
    exit_code: str
    reports: str
    look_first: str


EN = Words(
    facts={
        LogFact.ONE_ELEMENT: "the collective has one element (a barrier or a flag)",
        LogFact.FIRST_COLLECTIVE: "it is the first collective of the job",
        LogFact.EARLY: "it is one of the first collectives",
        LogFact.GATHER_OP: "it is a gather or a broadcast",
        LogFact.HAD_WORKED: "earlier collectives had worked",
        LogFact.SHARD_GATHER: "it gathers a sharded parameter",
        LogFact.LARGE_REDUCE: "it reduces many elements, like the gradients of a step",
        LogFact.SOME_SILENT: "some ranks wait and others say nothing",
        LogFact.RANK_0_SILENT: "rank 0 is not among those that wait",
        LogFact.RANK_0_ALONE: "rank 0 waits alone",
        LogFact.ALL_WAIT: "all ranks wait in the same collective",
        LogFact.NUMBER_DIFFERS: "the ranks are at different numbers",
        LogFact.OP_DIFFERS: "the ranks are at different operations",
        LogFact.SIZE_DIFFERS: "the ranks give different sizes",
        LogFact.EARLIER_FAILURE: "a process had ended before",
        LogFact.OUT_OF_MEMORY: "memory ran out",
        LogFact.PREPARING: "data was still being prepared",
        LogFact.SAVING: "a checkpoint was being saved",
        LogFact.EVALUATING: "an evaluation was going on",
        LogFact.GENERATING: "text was being generated",
        LogFact.LOADING: "weights were being loaded",
        LogFact.COMPILING: "something was being compiled",
        LogFact.AT_END: "training or an epoch had just ended",
        LogFact.QUEUE_DIFFERS: "the ranks have queued different numbers of operations",
        LogFact.REFUSED: "the connection was refused",
        LogFact.UNREACHABLE: "the address did not answer",
        LogFact.PEER_CLOSED: "a peer closed its connection",
        LogFact.NO_ROUTE: "a router or firewall says that there is no way to the host",
        LogFact.LOOPBACK: "a loopback address stands where another host should be",
        LogFact.LINK_LOCAL: "a link-local address was used",
        LogFact.FEWER_JOINED: "fewer processes joined than were expected",
        LogFact.MORE_JOINED: "more processes joined than were expected",
        LogFact.KILLED: "a process was killed by signal 9",
        LogFact.TRAINING: "training steps went by before",
        LogFact.BRACKETED: "an IPv6 address was given with its brackets",
        LogFact.ODD_ADDRESS: "the address is one that no host has",
        LogFact.DISK_FULL: "a disk is full",
        LogFact.ADDRESS_CHANGED: "a network card got another address",
        LogFact.PORT_ERROR: "a network port went down",
        LogFact.INIT_ERROR: "CUDA could not be initialised",
        LogFact.NOT_READY: "CUDA says that the system is not ready",
        LogFact.CONNECTION_ABORT: "the host itself gave up the connection",
        LogFact.SHORT_LIMIT: "the limit was a minute or less",
        LogFact.DEFAULT_GROUP: "the key is one of init_process_group",
    },
    doing={
        LogFact.PREPARING: "was still preparing data",
        LogFact.SAVING: "was saving",
        LogFact.EVALUATING: "was evaluating",
        LogFact.GENERATING: "was generating",
        LogFact.LOADING: "was loading weights",
        LogFact.COMPILING: "was compiling",
    },
    shows="these lines show: {facts}",
    only_consequences=(
        "only consequences are in these logs, not the failure itself; look in the log of {where}"
    ),
    raised_first="it raised an exception first; what the other ranks report came after",
    others="the other ranks",
    undecided="this message has several causes, and nothing in these logs decides",
    one_cause="this message has one known cause",
    most_frequent="the most frequent cause of this message; nothing in these logs decides",
    exception="an exception ended one rank",
    did_not_come="did not come",
    silent="says nothing while {others} wait",
    behind="is behind: at {op} number {number}, others at {most}",
    queue="is behind: {number} operations queued, others more",
    was_in="was in {op}",
    raised="raised {message}",
    signal="was ended by signal {signal}",
    exit_code="ended with exit code {code}",
    reports="reports the failure",
    look_first=(
        "look at {ranks} first: the end of its own log, and on a job that still hangs "
        "`py-spy dump --pid <pid>`"
    ),
)

ZH = Words(
    facts={
        LogFact.ONE_ELEMENT: "该集合通信只有一个元素（barrier 或标志位）",
        LogFact.FIRST_COLLECTIVE: "这是任务的第一个集合通信",
        LogFact.EARLY: "这是最早的几个集合通信之一",
        LogFact.GATHER_OP: "这是 gather 或 broadcast",
        LogFact.HAD_WORKED: "之前的集合通信都成功过",
        LogFact.SHARD_GATHER: "它在收集分片的参数",
        LogFact.LARGE_REDUCE: "它在规约大量元素，像一步训练的梯度",
        LogFact.SOME_SILENT: "部分 rank 在等待，其余 rank 没有输出",
        LogFact.RANK_0_SILENT: "等待的 rank 中没有 rank 0",
        LogFact.RANK_0_ALONE: "只有 rank 0 在等待",
        LogFact.ALL_WAIT: "所有 rank 都在等待同一个集合通信",
        LogFact.NUMBER_DIFFERS: "各 rank 的序号不同",
        LogFact.OP_DIFFERS: "各 rank 执行的操作不同",
        LogFact.SIZE_DIFFERS: "各 rank 给出的大小不同",
        LogFact.EARLIER_FAILURE: "此前已有进程退出",
        LogFact.OUT_OF_MEMORY: "内存或显存耗尽",
        LogFact.PREPARING: "数据仍在准备中",
        LogFact.SAVING: "正在保存检查点",
        LogFact.EVALUATING: "正在评估",
        LogFact.GENERATING: "正在生成文本",
        LogFact.LOADING: "正在加载权重",
        LogFact.COMPILING: "正在编译",
        LogFact.AT_END: "训练或一个 epoch 刚刚结束",
        LogFact.QUEUE_DIFFERS: "各 rank 排队的操作数不同",
        LogFact.REFUSED: "连接被拒绝",
        LogFact.UNREACHABLE: "该地址没有应答",
        LogFact.PEER_CLOSED: "对端关闭了连接",
        LogFact.NO_ROUTE: "路由器或防火墙回答没有到该主机的路由",
        LogFact.LOOPBACK: "本应是其他主机的位置出现了回环地址",
        LogFact.LINK_LOCAL: "使用了链路本地地址",
        LogFact.FEWER_JOINED: "加入的进程少于预期",
        LogFact.MORE_JOINED: "加入的进程多于预期",
        LogFact.KILLED: "有进程被信号 9 杀死",
        LogFact.TRAINING: "此前训练步在正常进行",
        LogFact.BRACKETED: "IPv6 地址带着方括号传入",
        LogFact.ODD_ADDRESS: "该地址不属于任何主机",
        LogFact.DISK_FULL: "磁盘已满",
        LogFact.ADDRESS_CHANGED: "网卡地址发生了变化",
        LogFact.PORT_ERROR: "网卡端口曾断开",
        LogFact.INIT_ERROR: "CUDA 初始化失败",
        LogFact.NOT_READY: "CUDA 报告系统尚未就绪",
        LogFact.CONNECTION_ABORT: "本机放弃了连接",
        LogFact.SHORT_LIMIT: "时限只有一分钟或更短",
        LogFact.DEFAULT_GROUP: "key 属于默认进程组",
    },
    doing={
        LogFact.PREPARING: "仍在准备数据",
        LogFact.SAVING: "正在保存",
        LogFact.EVALUATING: "正在评估",
        LogFact.GENERATING: "正在生成",
        LogFact.LOADING: "正在加载权重",
        LogFact.COMPILING: "正在编译",
    },
    shows="日志显示：{facts}",
    only_consequences="这些日志里只有后果，没有故障本身；请查看 {where} 的日志",
    raised_first="它最先抛出异常；其他 rank 的报错都在其后",
    others="其他 rank",
    undecided="这条消息有多种原因，这些日志无法判定是哪一种",
    one_cause="这条消息只有一种已知原因",
    most_frequent="这是该消息最常见的原因；这些日志无法进一步判定",
    exception="一个 rank 因异常退出",
    did_not_come="没有到达",
    silent="没有输出，而 {others} 在等待",
    behind="落后：停在 {op} 第 {number} 号，其他 rank 在第 {most} 号",
    queue="落后：排队 {number} 个操作，其他 rank 更多",
    was_in="停在 {op}",
    raised="抛出 {message}",
    signal="被信号 {signal} 结束",
    exit_code="以退出码 {code} 结束",
    reports="报告了该故障",
    look_first="先看 {ranks}：它自己日志的结尾；若任务仍挂着，再用 `py-spy dump --pid <pid>`",
)

LANGUAGES = {"en": EN, "zh": ZH}
