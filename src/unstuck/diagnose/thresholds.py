"""Every number that decides, with its unit and its reason.

*Derived* follows from how often something is looked at, or from arithmetic; *tuned* was chosen by
watching jobs and could be another value. Who counts as silent is decided in `model/liveness.py`,
which the hub and the callbacks go by as well.
"""

# --- how fresh what we know is -------------------------------------------------------------------

PEERS_DECIDE_WITHIN = 4.0
"""Seconds for which the peers of a silent node may be undecided about it; then it is judged
without them. Derived: the peers' own limits, and two frames."""
FELL_SILENT_TOGETHER = 2.0
"""Seconds between two nodes that fell silent for one reason. Derived: two frames."""
MOVES_WITHIN = 1.0
"""Seconds within which a rank that moves has made progress. Derived: one frame."""

# --- the first death -----------------------------------------------------------------------------

ROOT_AFTER = 0.25
"""Seconds that the first death must be old, so that the true root is among those seen. Derived:
agents look several times a second."""
FOLLOWERS_AFTER = 1.5
"""Seconds to wait for a root while only its consequences are visible. Derived: 1.5 frames."""
EXIT_WITHIN = 0.5
"""Seconds to wait for the exit code of a rank that leaves. Tuned: the interpreter takes 0.1 to
0.5 s to end."""
SIMULTANEOUS = 0.1
"""Seconds between two deaths that cannot be ordered. Derived: the period of the agents' look."""
AHEAD = 0.03
"""Seconds by which the first of several processes must be ahead of those that a launcher ended
together. Tuned: on an idle machine those are gone within less; a busy one can be slower."""
TERMINATED_AFTER = 0.5
"""Seconds by which every rank is gone that a launcher ends together with this one. Tuned."""
SEEN_WITHIN = 0.5
"""Seconds by which a busy machine may see a death later than its neighbours felt it. Tuned."""
SUFFERS_AFTER = 0.3
"""Seconds in a collective after which a rank counts as held up by one that has left. Tuned."""

# --- how long a wait must last -------------------------------------------------------------------

SUSPICION = 1.0
"""Seconds of waiting from which on evidence is asked for. Derived: one frame."""
SURE_AFTER = 2.0
"""Seconds of waiting for a rank that is stopped, silent or gone: its state is unambiguous.
Derived: two frames, so that a page that is a beat behind accuses nobody."""
FLOOR = 3.0
"""Seconds of waiting that are never too long, however fast the job is. Tuned."""
TIMES = 3
"""How many times longer than ever before a wait or a place may take. Tuned."""
STEPS = 2
"""How many steps could have passed before a wait is too long. Tuned."""
ENOUGH_GAPS = 10
"""Signs of progress from which the job's own pace is known. Tuned."""
START_UP = 20.0
"""Seconds for the first step, which compiles and warms up. Tuned."""
LONG_WORK = 30.0
"""Seconds for work that often takes long on one rank: saving, compiling, many lines. Tuned."""
MANY_LINES = 5
"""Lines of the script that a rank passes if it visibly works its way through it. Tuned."""
GRACE = 2.0
"""Seconds that a verdict waits for evidence that was asked for and has not arrived. Derived: two
frames."""
FOUND_TOGETHER = 0.5
"""Seconds between two faults that are reported together. Tuned."""
JOIN_WITHIN = 60.0
"""Seconds for a rank that imports, or was never seen, to join. Tuned."""
LATE_IF_IDLE = 5.0
"""Seconds for a rank that neither works nor imports anything before it joins. Tuned."""
IDLE_FOR = 120.0
"""Seconds without progress after which a job in which nobody waits is reported. Tuned: a healthy
job may pause for an upload or until new data is there."""

# --- a living rank holds others up ---------------------------------------------------------------

QUIET_FOR = 60.0
"""Seconds without any sign of life after which it is judged although nothing proves that it is
stuck. Tuned: services are often back within a minute, and people look after about as long."""
INPUT_QUIET_FOR = 300.0
"""Seconds, the same for one that waits for input by design: a queue, a request. Tuned."""
FROZEN_FOR = 1.0
"""Seconds without a sign of life, beside the usual patience, after which a held GIL is known to be
held by code that waits, and a lock by nobody. Derived: one look at its counters."""
WARN_AT = 0.5
"""Share of an operation's timeout that has passed when people are warned of it. Tuned: half the
time is left to save or to look."""

# --- what a process does -------------------------------------------------------------------------

BUSY_CPU = 0.5
"""Share of a core above which a thread works. Tuned."""
IDLE_CPU = 0.05
"""Share of a core below which a thread waits. Tuned: one that is only held up, by the GIL or for
want of a free core, uses more."""
HABIT = 3
"""Messages on the same way after which the one that breaks with it is odd. Tuned."""

LAGS_BEYOND_CHANCE = 2
"""Times that others completed an operation and a rank did not, from which on its device stopped.
Derived: when a network stalls inside an operation, some members may complete that one, but none
the next."""

# --- slow, not stuck -----------------------------------------------------------------------------

ENOUGH_STEPS = 12
"""Steps from which own times are compared. Tuned."""
LONG_ENOUGH = 8.0
"""Seconds for which a rank that was never faster must be known: jobs start unevenly. Tuned."""
FACTOR = 1.5
"""A straggler takes at least so many times what the others take for themselves. Tuned."""
FACTOR_IF_STARVED = 1.25
"""Times, the same for one that waits for a core: there a lesser lag is no chance. Tuned."""
BEYOND_CHANCE = 6.0
"""Standard errors by which it is slower. Tuned on a made clock: jobs whose steps vary a lot
(exponential, lognormal) accused somebody 20 times an hour without this rule, with 3 of them 10
times, with 5 every two hours, with 6 not once in 60 hours."""
BEYOND_CHANCE_IF_STARVED = 3.0
"""Standard errors, for one that waits for a core. Tuned: the lab's have 3.2 to 6.4."""
COST = 0.2
"""Share of a step by which it would be shorter without the straggler. Tuned."""
LEAST_COST = 0.005
"""Seconds a step: less is not worth a word. Tuned."""
NEW = 1.3
"""How many times its own usual time a rank takes if it has become slow. Tuned."""
LAST_ON_DEVICE = 0.75
"""Share of a step. On a device work is issued ahead: only a rank that finds all others waiting is
surely last. Tuned."""
SAME_STEP = 0.25
"""Share by which step times may differ between ranks that take the same steps. Tuned."""
OVER = 0.5
"""Share of the limits below which a straggler has caught up. Tuned."""
HELD_UP = 0.1
"""Share of time below which a shortage explains nothing. Tuned."""
HOST_FULL = 0.9
"""Share of time in which some process of a host waits for a core, from which on all are short of
them. Tuned: 0.99 and more on a host with a load of 20 for each core."""
STARVED = 0.7
"""Share of time without a core at which a stalled rank takes three times as long. Derived."""
NEARLY_ALL = 0.75
"""Share of what a rank takes longer than the others: nothing else can have made it slow. Tuned."""
MORE_WORK = 1.5
"""So many times the others' own time is work of its own, not what its host does to it. Tuned."""
MEMORY_PRESSURE = 0.3
"""Share of time in which a host reclaims memory, if that is what a rank in state D waits for.
Tuned."""
