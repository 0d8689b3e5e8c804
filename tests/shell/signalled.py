"""Starts a command, signals it once the file `ready` is there and it waits, and prints how it ended.

`signalled.py SIGNAL shell|group COMMAND...`: the signal goes to the command alone (as with KillMode=mixed) or
to its whole group (as with control-group). What goes on nevertheless is let go: the file `going` is made, and
the FIFO `over`, if there is one, has a writer for a moment. Prints `died of TERM` or `exited 3`, and ` late`
if it took long. A command that never waits writes `busy` into `ready`.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LOOK_SECONDS = 0.02
SETTLED_SECONDS = 10
"""Limit until a command waits: it is signalled then, whatever it does."""
SOON = 15
"""Seconds: less than the children of the scripts under test sleep."""


def ending(returncode: int, seconds: float) -> str:
    """Return how a process ended and whether it took its time."""
    how = f"exited {returncode}" if returncode >= 0 else f"died of {signal.Signals(-returncode).name[3:]}"
    return how + (" late" if seconds > SOON else "")


def settle(session: int) -> None:
    """Wait until all that runs in a session sleeps at two looks in a row: it is what it is to be then."""
    deadline = time.monotonic() + SETTLED_SECONDS
    quiet = 0
    while quiet < 2 and ready.read_text() != "busy\n" and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        quiet = quiet + 1 if states(session) <= {"S", "Z"} else 0


def states(session: int) -> set[str]:
    """Return the states of the processes in a session, each a letter as in proc(5)."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own_session, *_ = stat.read_text().rpartition(") ")[2].split()
        except (OSError, ValueError):  # it has ended meanwhile
            continue
        if int(own_session) == session:
            found.add(state)
    return found


def ended(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether a process ends within a moment."""
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return False
    return True


def let_go() -> None:
    """Have what waits for it go on."""
    Path("going").touch()
    if Path("over").is_fifo():
        os.close(os.open("over", os.O_RDWR | os.O_NONBLOCK))


name, target, *command = sys.argv[1:]
ready = Path("ready")
ready.unlink(missing_ok=True)
process = subprocess.Popen(command, start_new_session=True)
while not ready.exists() and process.poll() is None:
    time.sleep(0.005)
if ready.exists():
    settle(process.pid)
sent = time.monotonic()
(os.kill if target == "shell" else os.killpg)(process.pid, signal.Signals[f"SIG{name}"])
while not ended(process):
    let_go()
print(ending(process.returncode, time.monotonic() - sent))
try:
    os.killpg(process.pid, signal.SIGKILL)
except ProcessLookupError:
    sys.exit()
