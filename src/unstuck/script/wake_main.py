"""Have the main thread run the handler of a signal, also when it is just going to sleep.

A signal that comes after Python's last look for signals and before a call that blocks wakes
nobody: Python notes it, the call begins all the same, and the handler runs when it is over. So the
signal is sent again until its handler was seen to run, or the main thread is clearly in a call that
no signal ends.
"""

import contextlib
import signal
import threading
from collections.abc import Callable

PAUSES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def wake_main(number: int, heard: Callable[[], bool]) -> None:
    """Send the main thread a signal, and again while `heard` is false.

    A handler must expect to be called once more than it was needed.
    """
    main = threading.main_thread().ident
    if main is None:
        return
    signal.pthread_kill(main, number)
    with contextlib.suppress(RuntimeError):  # the interpreter is ending
        threading.Thread(
            target=_insist, args=(main, number, heard), name="unstuck waking", daemon=True
        ).start()


def _insist(main: int, number: int, heard: Callable[[], bool]) -> None:
    pause = threading.Event()
    for seconds in PAUSES:
        pause.wait(seconds)
        if heard():
            return
        signal.pthread_kill(main, number)
