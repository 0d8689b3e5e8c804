"""Give a process an uptime of its own."""

import ctypes
import os
import time
from pathlib import Path
from typing import Final

_CLONE_NEWTIME: Final = 0x80
"""CLONE_NEWTIME of unshare(2); Python has it from 3.12 on."""


def set_uptime(seconds: int) -> None:
    """Move this process into a new time namespace, `seconds` seconds after its boot.

    Needs root rights. The process may have only one thread.
    """
    system = ctypes.CDLL(None, use_errno=True)
    if system.unshare(_CLONE_NEWTIME) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a time namespace")
    clocks = {"boottime": time.clock_gettime(time.CLOCK_BOOTTIME), "monotonic": time.monotonic()}
    offsets = "".join(f"{name} {seconds - int(now)} 0\n" for name, now in clocks.items())
    Path("/proc/self/timens_offsets").write_text(offsets)
    # unshare(2) moves only the children that are forked from now on.
    namespace = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    if system.setns(namespace, _CLONE_NEWTIME) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the time namespace")
    os.close(namespace)
