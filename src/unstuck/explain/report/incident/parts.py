"""Parts of the HTML report: tables, the stack tree, one rank beside a healthy one."""

from collections.abc import Iterable, Sequence

from unstuck import durations
from unstuck.explain.report.incident.tags import Html, block, join, tag
from unstuck.explain.view.doing_now import State
from unstuck.explain.view.job_view import JobView
from unstuck.explain.view.rank_view import GroupPair, RankView
from unstuck.explain.view.stack_tree import StackNode, StackTree
from unstuck.model.rank import CodeLine, Operation

MOST_NODES = 400
MOST_HOSTS = 12
MOST_GROUPS = 10
_FEW = 8
"""A branch with at most this share (1 in 8) of all ranks stands out."""

NAMES = {
    State.COMPUTING: "computing",
    State.COLLECTIVE: "waiting in a collective",
    State.SECTION: "in a section",
    State.BLOCKED: "idle or blocked outside collectives",
    State.STARTING: "starting",
    State.SLOW: "slow",
    State.DONE: "ended in order",
    State.UNSEEN: "unobserved",
    State.MISSING: "never seen",
    State.SILENT: "silent",
    State.STOPPED: "stopped",
    State.GONE: "died",
}


def seconds(value: float) -> str:
    """Write a duration; nothing for 0."""
    return durations.text(value) if value else ""


def facts(*pairs: tuple[str, str]) -> Html:
    """List what is known, each with its name; what is empty is left out."""
    shown = [(name, value) for name, value in pairs if value]
    return tag("dl", *(tag("div", tag("dt", k), tag("dd", v)) for k, v in shown), class_="facts")


def table(head: Sequence[str], rows: Iterable[Sequence[str | Html]], numbers: int = 99) -> Html:
    """Make a table; columns from `numbers` on are aligned to the right."""
    kinds = ["n" if column >= numbers else None for column in range(len(head))]
    return tag(
        "table",
        tag("tr", *(tag("th", one, class_=kind) for one, kind in zip(head, kinds, strict=True))),
        *(
            tag("tr", *(tag("td", one, class_=kind) for one, kind in zip(row, kinds, strict=True)))
            for row in rows
        ),
    )


def grid_legend(job: JobView) -> Html:
    """Name the colours that occur, each with its count."""
    items = [
        tag("li", tag("i", class_=f"s-{state}"), f"{job.counts[state]:,} {NAMES[state]}")
        for state in State
        if job.counts.get(state)
    ]
    if job.culprits:
        items.append(tag("li", tag("i", class_="ringed"), "held responsible by the verdict"))
    return tag("ul", *items, class_="legend")


# --- stacks


def stack_section(tree: StackTree, world: int) -> Html:
    """Show all ranks' stacks as one tree."""
    if not tree.roots:
        return Html("")
    notes: list[str] = []
    if tree.inferred:
        count = f"{tree.inferred:,} rank{'s' if tree.inferred > 1 else ''}"
        notes.append(f"the outermost frames of {count} are taken from a rank in the same function")
    if tree.unknown:
        notes.append(f"no stack is known of {tree.unknown}")
    budget = [MOST_NODES]
    shown = tag("ul", *(_node(one, world, budget) for one in tree.roots), class_="tree")
    if budget[0] <= 0:
        notes.append(f"only the first {MOST_NODES} frames are shown")
    return tag(
        "section",
        tag("h2", "Where all ranks were: their stacks merged"),
        shown,
        tag("p", "; ".join(notes), class_="soft small") if notes else None,
    )


def _node(node: StackNode, world: int, budget: list[int]) -> Html | None:
    if budget[0] <= 0:
        return None
    budget[0] -= 1
    few = " few" if node.count * _FEW <= world or (node.count < world / 2 and world < _FEW) else ""
    kind = "" if node.user or node.function == "<module>" else " lib"
    line = tag(
        "div",
        tag("span", node.function, class_="fn"),
        tag("span", f" {_short(node.file)}:{node.line}", class_="at", title=node.file),
        join(" ", tag("code", node.text)) if node.text and node.user else None,
        tag("span", f"{node.count:,}: {_short_ranks(node.ranks)}", class_="who"),
        class_=f"frame{few}{kind}",
    )
    inside = [_node(one, world, budget) for one in node.calls]
    return tag("li", line, tag("ul", *inside) if inside else None)


def _short_ranks(ranks: str) -> str:
    return ("rank " if ranks.isdigit() else "ranks ") + ranks


def _short(file: str) -> str:
    """Return the end of a path: the package's own part of a library, the name of a script."""
    parts = file.replace("\\", "/").split("/")
    for mark in ("site-packages", "dist-packages"):
        if mark in parts:
            return "/".join(parts[parts.index(mark) + 1 :])
    return parts[-1]


# --- one rank


def rank_section(rank: RankView) -> Html:
    """Show one rank beside a healthy one."""
    process = rank.process
    beside = f" beside rank {rank.healthy}" if rank.healthy is not None else ""
    memory = f"{process.rss / (1 << 30):.1f} GiB" if process and process.rss else ""
    return tag(
        "section",
        tag("h2", f"Rank {rank.rank}{beside}"),
        tag("p", tag("b", f"rank {rank.rank} {rank.doing}") if rank.doing else None),
        facts(
            ("host", rank.host),
            ("pid", str(rank.pid or "")),
            ("step", str(rank.step or "")),
            ("no progress for", seconds(rank.stalled_for)),
            ("section", ", ".join(rank.sections)),
            ("process state", f"{process.state}" if process else ""),
            ("sleeps in", process.waits_in if process else ""),
            ("CPU of the main thread", f"{process.cpu:.0%}" if process else ""),
            ("memory", memory),
            ("exit code", _exit_code(rank)),
            ("not observed", rank.unobserved),
        ),
        _failure(rank),
        *(_pair_table(group, rank) for group in rank.groups[:6]),
        _stacks(rank),
    )


def _exit_code(rank: RankView) -> str:
    code = rank.process.exit_code if rank.process else None
    return "" if code is None else str(code)


def _failure(rank: RankView) -> Html | None:
    if rank.failure is None:
        return None
    text = f"{rank.failure.type}: {rank.failure.message}"
    return join(tag("h3", "The exception that ended it"), block(text[:4000]))


def _pair_table(group: GroupPair, rank: RankView) -> Html:
    title = f"{group.text}: {group.size:,} ranks" + (f", {group.backend}" if group.backend else "")
    reached = f"rank {rank.rank} has begun {group.enqueued:,} operations"
    if group.their_enqueued is not None:
        reached += f", rank {rank.healthy} {group.their_enqueued:,}"
    if not group.operations:
        return join(tag("h3", title), tag("p", reached, class_="soft"))
    head = ("number", f"rank {rank.rank}", f"rank {rank.healthy}")
    rows = [
        tag(
            "tr",
            tag("td", f"#{one.number}", class_="soft"),
            tag("td", _operation(one.mine)),
            tag("td", _operation(one.theirs)),
            class_="differs" if one.differs and group.their_enqueued is not None else None,
        )
        for one in group.operations
    ]
    names = tag("tr", *(tag("th", one) for one in head))
    return join(tag("h3", title), tag("p", reached, class_="soft"), tag("table", names, *rows))


def _operation(one: Operation | None) -> str:
    if one is None:
        return "not begun, as far as its recorder shows"
    sizes = " ".join("x".join(map(str, size)) or "1" for size in one.sizes[:4])
    kinds = "/".join(dict.fromkeys(one.dtypes)).lower()
    name = one.op.rsplit(":", 1)[-1]
    state = "completed" if one.done else f"in flight for {durations.text(one.age)}"
    return f"{name} {sizes} {kinds}".strip() + f", {state}"


def _stacks(rank: RankView) -> Html | None:
    if not rank.stack and not rank.threads:
        return None
    parts: list[Html | None] = []
    if rank.stack:
        parts += [
            tag("h3", f"Main thread of rank {rank.rank}, innermost first"),
            _lines(rank.stack),
        ]
    if rank.healthy_stack:
        title = tag("summary", f"main thread of rank {rank.healthy}, for comparison")
        parts.append(tag("details", title, _lines(rank.healthy_stack)))
    if rank.threads:
        title = tag("summary", f"all threads of rank {rank.rank} ({len(rank.threads)})")
        text = "\n\n".join(one.rstrip() for one in rank.threads)[:100_000]
        parts.append(tag("details", title, block(text)))
    return join(*parts)


def _lines(stack: Iterable[CodeLine]) -> Html:
    rows = (
        f"{'>' if one.user else ' '} {one.file}:{one.line} in {one.function}"
        + (f"\n      {one.text.strip()}" if one.text else "")
        for one in stack
    )
    return block("\n".join(rows))


# --- the job


def group_table(job: JobView) -> Html:
    """Show the process groups, those that are furthest apart first."""
    if not job.groups:
        return Html("")
    rows = [
        (
            one.text,
            one.backend,
            one.members,
            f"{one.size:,}",
            f"{one.least:,}",
            f"{one.most:,}",
            f"{one.completed:,}",
            seconds(one.timeout),
        )
        for one in job.groups[:MOST_GROUPS]
    ]
    more = len(job.groups) - MOST_GROUPS
    note = f"those that are furthest apart; {more}{'' if more < 54 else ' or more'} others"
    head = ("group", "backend", "ranks", "size", "begun, least", "most", "completed", "timeout")
    shown = table(head, rows, numbers=3)
    return join(shown, tag("p", note, class_="soft small")) if more > 0 else shown


def host_table(job: JobView) -> Html:
    """Show the hosts that are not well, else the first few."""
    hosts = sorted(job.grid.hosts, key=lambda one: (one.life == "alive", one.first))
    rows = [
        (
            one.name or "never seen",
            f"{one.count}",
            str(one.life),
            f"{one.pressure.cpu:.0%}",
            f"{one.pressure.io:.0%}",
            f"{one.pressure.memory:.0%}",
            ", ".join(f"{p.name} ({p.cpu:.1f} cores)" for p in one.pressure.others[:3]),
        )
        for one in hosts[:MOST_HOSTS]
    ]
    head = ("host", "ranks", "state", "CPU", "disk", "memory", "largest processes outside the job")
    text = "CPU, disk, memory: share of time in which tasks waited for them"
    if len(hosts) > MOST_HOSTS:
        text += f"; {len(hosts) - MOST_HOSTS:,} more hosts are not shown"
    note = tag("p", text, class_="soft small")
    return join(tag("h3", "Hosts"), table(head, rows), note)
