"""The closed vocabularies in words, in both languages."""

from unstuck.explain.kb.schema import Role, Text, Tier
from unstuck.model.log import LogFact
from unstuck.model.verdict import Cause

LANGUAGES = ("en", "zh")


def say(text: Text, lang: str) -> str:
    """Return a text in one language.

    Example:
        say(record.title, "zh")
    """
    return text.zh if lang == "zh" else text.en


ROLES = {
    Role.ROOT: Text("the failure itself", "故障本身"),
    Role.CASCADE: Text("a consequence of a failure elsewhere", "别处故障的后果"),
    Role.EITHER: Text("the failure, or a consequence of one", "故障本身或别处故障的后果"),
    Role.DIAGNOSTIC: Text("no failure, but helps to find one", "不是故障，但有助于定位故障"),
    Role.HARMLESS: Text("harmless", "无害"),
}

TIERS = {
    Tier.MEASURED: Text("measured", "已测量"),
    Tier.REPRODUCED: Text("reproduced", "已复现"),
    Tier.REPORTED: Text("from public reports", "来自公开报告"),
    Tier.UNVERIFIED: Text("unverified", "未验证"),
}

CONFIDENCES = {
    "certain": Text("certain", "确定"),
    "likely": Text("likely", "很可能"),
    "possible": Text("possible", "可能"),
}

CAUSES = {
    Cause.NETWORK_PARTITION: Text("the network between nodes is cut", "节点之间网络中断"),
    Cause.NODE_FAILURE: Text("a node is down", "节点失效"),
    Cause.PROCESS_CRASH: Text("a process crashed", "进程崩溃"),
    Cause.OUT_OF_MEMORY: Text("out of memory", "内存不足"),
    Cause.PROCESS_STOPPED: Text("a process is stopped", "进程被暂停"),
    Cause.STRAGGLER: Text("one rank is slow", "某个进程太慢"),
    Cause.RESOURCE_CONTENTION: Text("others use the machine", "资源被争用"),
    Cause.COLLECTIVE_MISMATCH: Text(
        "ranks call different collectives", "各进程调用的集合操作不一致"
    ),
    Cause.ORDER_INVERSION: Text("ranks call groups in another order", "各进程调用通信组的顺序不同"),
    Cause.UNEVEN_WORK: Text("ranks have unequal work", "各进程工作量不等"),
    Cause.RANK_LEFT_EARLY: Text("a rank left early", "有进程提前退出"),
    Cause.BUSY_ELSEWHERE: Text("a rank does other work for longer", "有进程在忙别的工作"),
    Cause.HOST_DEADLOCK: Text("a rank is blocked in itself", "进程内部死锁"),
    Cause.NEVER_JOINED: Text("a rank never joined", "有进程从未加入"),
    Cause.STORE_LOST: Text("the store is gone", "存储服务已丢失"),
    Cause.TRANSPORT_STALL: Text("the transport stands still", "传输层停滞"),
    Cause.NETWORK_MISCONFIGURATION: Text("the network is set up wrongly", "网络配置错误"),
    Cause.HARDWARE_FAULT: Text("hardware fault", "硬件故障"),
    Cause.SOFTWARE_BUG: Text("fault of a library or version", "库或版本缺陷"),
    Cause.TIMEOUT_TOO_SHORT: Text("the timeout is too short", "超时设置过短"),
    Cause.UNKNOWN: Text("unknown", "未知"),
}

FACTS = {
    LogFact.ONE_ELEMENT: Text("the collective has one element", "该集合操作只有一个元素"),
    LogFact.FIRST_COLLECTIVE: Text("it is the first collective", "这是第一次集合操作"),
    LogFact.EARLY: Text("few collectives ran before", "之前只执行过少量集合操作"),
    LogFact.GATHER_OP: Text("it is a gather or broadcast", "这是 gather 或 broadcast 操作"),
    LogFact.SOME_SILENT: Text("some ranks say nothing", "部分进程没有输出"),
    LogFact.HAD_WORKED: Text("earlier collectives had worked", "之前的集合通信都成功过"),
    LogFact.SHARD_GATHER: Text("it gathers a sharded parameter", "它在收集分片的参数"),
    LogFact.LARGE_REDUCE: Text("it reduces many elements", "它在规约大量元素"),
    LogFact.RANK_0_ALONE: Text("rank 0 waits alone", "只有 rank 0 在等待"),
    LogFact.RANK_0_SILENT: Text("rank 0 is not among those that wait", "等待的进程中没有 rank 0"),
    LogFact.ALL_WAIT: Text("all ranks wait in the same operation", "所有进程都在等待同一操作"),
    LogFact.NUMBER_DIFFERS: Text("ranks are at different numbers", "各进程的序号不同"),
    LogFact.OP_DIFFERS: Text("ranks are at different operations", "各进程处于不同的操作"),
    LogFact.SIZE_DIFFERS: Text("ranks send different sizes", "各进程的数据大小不同"),
    LogFact.EARLIER_FAILURE: Text("another rank failed before", "此前另一个进程已失败"),
    LogFact.OUT_OF_MEMORY: Text("an out-of-memory message is near", "附近有内存不足的消息"),
    LogFact.PREPARING: Text("data was being prepared", "正在准备数据"),
    LogFact.SAVING: Text("a checkpoint was being saved", "正在保存检查点"),
    LogFact.EVALUATING: Text("an evaluation was running", "正在评估"),
    LogFact.GENERATING: Text("text was being generated", "正在生成文本"),
    LogFact.LOADING: Text("weights were being loaded", "正在加载权重"),
    LogFact.COMPILING: Text("code was being compiled", "正在编译"),
    LogFact.AT_END: Text("an epoch or the training had just ended", "一个 epoch 或训练刚结束"),
    LogFact.QUEUE_DIFFERS: Text("ranks have different queues of work", "各进程排队的任务数不同"),
    LogFact.REFUSED: Text("the connection was refused", "连接被拒绝"),
    LogFact.PEER_CLOSED: Text("a peer closed its connection", "对端关闭了连接"),
    LogFact.NO_ROUTE: Text("there is no route to the host", "没有到该主机的路由"),
    LogFact.UNREACHABLE: Text("the other host was not reached", "无法到达对方主机"),
    LogFact.LOOPBACK: Text("the address is a loopback one", "地址是回环地址"),
    LogFact.LINK_LOCAL: Text("the address is link-local", "地址是链路本地地址"),
    LogFact.FEWER_JOINED: Text("fewer ranks joined than expected", "加入的进程少于预期"),
    LogFact.MORE_JOINED: Text("more ranks joined than expected", "加入的进程多于预期"),
    LogFact.KILLED: Text("a process was killed by signal 9", "有进程被信号 9 杀死"),
    LogFact.TRAINING: Text("training steps went by before", "此前训练步在正常进行"),
    LogFact.BRACKETED: Text("an IPv6 address in brackets", "IPv6 地址带有方括号"),
    LogFact.ODD_ADDRESS: Text("an address that no host has", "不属于任何主机的地址"),
    LogFact.DISK_FULL: Text("a disk is full", "磁盘已满"),
    LogFact.ADDRESS_CHANGED: Text("a network card got another address", "网卡地址发生了变化"),
    LogFact.PORT_ERROR: Text("a network port went down", "网卡端口曾断开"),
    LogFact.INIT_ERROR: Text("CUDA could not be initialised", "CUDA 初始化失败"),
    LogFact.NOT_READY: Text("CUDA says that the system is not ready", "CUDA 报告系统尚未就绪"),
    LogFact.CONNECTION_ABORT: Text("the host itself gave up the connection", "本机放弃了连接"),
    LogFact.SHORT_LIMIT: Text("the limit was a minute or less", "时限只有一分钟或更短"),
    LogFact.DEFAULT_GROUP: Text("the key is one of init_process_group", "key 属于默认进程组"),
}
