"""Faults as values, one a file: whom they strike, how, and the proof that they did."""

from unstuck.lab.faults.cpu_hog import CpuHog
from unstuck.lab.faults.cut import Cut
from unstuck.lab.faults.disk_hog import DiskHog
from unstuck.lab.faults.fault import Fault, Fired, Injection
from unstuck.lab.faults.freeze import Freeze
from unstuck.lab.faults.inside import Inside
from unstuck.lab.faults.kill import Kill
from unstuck.lab.faults.kill_launcher import KillLauncher
from unstuck.lab.faults.memory import MemoryLimit
from unstuck.lab.faults.one_way import OneWay
from unstuck.lab.faults.power_off import PowerOff
from unstuck.lab.faults.second_job import SecondJob
from unstuck.lab.faults.slow_link import SlowLink
from unstuck.lab.faults.split import Split
from unstuck.lab.faults.stop import Stop
from unstuck.lab.faults.throttle import Throttle
from unstuck.lab.faults.trace import Trace

AnyFault = (
    Inside
    | Stop
    | Trace
    | Freeze
    | Kill
    | KillLauncher
    | MemoryLimit
    | CpuHog
    | Throttle
    | DiskHog
    | Cut
    | OneWay
    | Split
    | SlowLink
    | PowerOff
    | SecondJob
)
"""Every fault a scenario may name. A new one is added here."""

__all__ = ["AnyFault", "Fault", "Fired", "Injection", "Inside"]
