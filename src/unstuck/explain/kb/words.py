"""The closed vocabularies in words, in both languages."""

from unstuck.diagnose.logs import phrases
from unstuck.explain.kb.schema import Role, Text, Tier
from unstuck.model.verdict import Cause

LANGUAGES = ("en", "zh")

ROLES = {
    Role.ROOT: Text("the failure itself", "故障本身"),
    Role.CASCADE: Text("a consequence of a failure elsewhere", "别处故障的后果"),
    Role.EITHER: Text("the failure, or a consequence of one", "故障本身或别处故障的后果"),
    Role.DIAGNOSTIC: Text("not a failure, but helps to find one", "不是故障，但有助于定位故障"),
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
    Cause.NETWORK_PARTITION: Text("nodes cannot reach each other", "节点之间网络中断"),
    Cause.NODE_FAILURE: Text("a node is down", "节点失效"),
    Cause.PROCESS_CRASH: Text("a process crashed", "进程崩溃"),
    Cause.OUT_OF_MEMORY: Text("out of memory", "内存不足"),
    Cause.PROCESS_STOPPED: Text("a process is stopped", "进程被暂停"),
    Cause.STRAGGLER: Text("one rank is slow", "某个 rank 太慢"),
    Cause.RESOURCE_CONTENTION: Text("other processes use the machine", "资源被争用"),
    Cause.COLLECTIVE_MISMATCH: Text(
        "ranks call different collectives", "各 rank 调用的集合通信不一致"
    ),
    Cause.ORDER_INVERSION: Text(
        "ranks use their groups in different orders", "各 rank 使用通信组的顺序不同"
    ),
    Cause.UNEVEN_WORK: Text("ranks have unequal amounts of work", "各 rank 工作量不等"),
    Cause.RANK_LEFT_EARLY: Text("a rank left early", "有 rank 提前退出"),
    Cause.BUSY_ELSEWHERE: Text("a rank is busy with other work", "有 rank 在忙别的工作"),
    Cause.HOST_DEADLOCK: Text("a rank is deadlocked", "rank 内部死锁"),
    Cause.NEVER_JOINED: Text("a rank never joined", "有 rank 从未加入"),
    Cause.STORE_LOST: Text("the store is gone", "TCPStore 已丢失"),
    Cause.TRANSPORT_STALL: Text("data has stopped moving", "数据传输停滞"),
    Cause.NETWORK_MISCONFIGURATION: Text("the network is misconfigured", "网络配置错误"),
    Cause.HARDWARE_FAULT: Text("hardware fault", "硬件故障"),
    Cause.SOFTWARE_BUG: Text("bug in a library or version", "库或版本缺陷"),
    Cause.TIMEOUT_TOO_SHORT: Text("the timeout is too short", "超时设置过短"),
    Cause.UNKNOWN: Text("unknown", "未知"),
}

FACTS = {fact: Text(en, zh) for fact, (en, zh) in phrases.FACTS.items()}
