"""Has a thread run on for up to $STARTS_FOR seconds before who starts it goes on, as a busy host may have it.

Python loads it where its directory is on PYTHONPATH. https://docs.python.org/3/library/site.html
"""

import os
import threading
import time
from pathlib import Path

_start = threading.Thread.start


def _start_and_wait(self: threading.Thread) -> None:
    _start(self)
    until = time.monotonic() + float(os.environ["STARTS_FOR"])
    # Not join(): in Python 3.11 and 3.12, one that a signal interrupts takes the thread for ended.
    while Path(f"/proc/self/task/{self.native_id}").exists() and time.monotonic() < until:
        time.sleep(0.01)


threading.Thread.start = _start_and_wait  # type: ignore[method-assign]
