"""The kernel function that a thread sleeps in says what it waits for."""

import pytest

from unstuck.model.neighbour import KernelWait, kernel_wait


@pytest.mark.parametrize(
    ("function", "wait"),
    [
        ("futex_wait_queue", KernelWait.LOCK),
        ("futex_wait_queue_me", KernelWait.LOCK),
        ("futex_do_wait", KernelWait.LOCK),
        ("__futex_wait", KernelWait.LOCK),
        ("do_wait", KernelWait.CHILD),
        ("do_wait.part.0", KernelWait.CHILD),
        ("kernel_wait4", KernelWait.CHILD),
        ("hrtimer_nanosleep", KernelWait.TIMER),
        ("do_nanosleep", KernelWait.TIMER),
        ("common_nsleep_timens", KernelWait.TIMER),
        ("locks_lock_inode_wait", KernelWait.FILE_LOCK),
        ("flock_lock_inode_wait", KernelWait.FILE_LOCK),
        ("posix_lock_inode_wait", KernelWait.FILE_LOCK),
        ("do_lock_file_wait", KernelWait.FILE_LOCK),
        ("fcntl_setlk", KernelWait.FILE_LOCK),
        ("__x64_sys_flock", KernelWait.FILE_LOCK),
        ("pipe_read", KernelWait.PIPE_READ),
        ("anon_pipe_read", KernelWait.PIPE_READ),
        ("pipe_wait_readable", KernelWait.PIPE_READ),
        ("wait_for_partner", KernelWait.PIPE_READ),
        ("pipe_write", KernelWait.PIPE_WRITE),
        ("anon_pipe_write", KernelWait.PIPE_WRITE),
        ("unix_stream_read_generic", KernelWait.SOCKET),
        ("sk_wait_data", KernelWait.SOCKET),
        ("tcp_recvmsg_locked", KernelWait.SOCKET),
        ("__skb_wait_for_more_packets", KernelWait.SOCKET),
        ("inet_csk_accept", KernelWait.SOCKET),
        ("wait_woken", KernelWait.SOCKET),
        ("do_poll", KernelWait.ANY),
        ("do_sys_poll", KernelWait.ANY),
        ("poll_schedule_timeout", KernelWait.ANY),
        ("do_select", KernelWait.ANY),
        ("ep_poll", KernelWait.ANY),
        ("do_epoll_wait", KernelWait.ANY),
        ("n_tty_read", KernelWait.TERMINAL),
        ("sleep_on_page", KernelWait.OTHER),
        ("io_schedule", KernelWait.OTHER),
        ("0", KernelWait.HIDDEN),
        ("", KernelWait.HIDDEN),
    ],
)
def test_each_function_of_the_kernel_means_one_wait(function: str, wait: KernelWait):
    assert kernel_wait(function) is wait
