"""Starts a command, signals it once the file `ready` is there and it waits, and prints how it ended.

`signalled.py SIGNAL shell|group COMMAND...`: the signal goes to the command alone (as with KillMode=mixed) or
to its whole group (as with control-group). What goes on nevertheless is let go: the file `going` is made, and
the FIFO `over`, if there is one, has a writer for a moment. Prints `died of TERM` or `exited 3`, and ` late`
if it took long. A command that never waits writes `busy` into `ready`.

It is started some hundreds of times, so that it imports no more than it has to.
"""

import os
import signal
import stat
import sys
import time

LOOK_SECONDS = 0.02
SETTLED_SECONDS = 10
"""Limit until a command waits: it is signalled then, whatever it does."""
SOON = 15
"""Seconds: less than the children of the scripts under test sleep."""
MOMENT_SECONDS = 0.5
READY = "ready"


def start(command: list[str]) -> int:
    """Start a command in a session of its own; return its process."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    return pid


def ended(pid: int, seconds: float = 0.0) -> int | None:
    """Return the exit status of a process, negative for a signal; None when it does not end in that time."""
    deadline = time.monotonic() + seconds
    while (found := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(found[1])


def ending(status: int, seconds: float) -> str:
    """Return how a process ended and whether it took its time."""
    how = f"exited {status}" if status >= 0 else f"died of {signal.Signals(-status).name[3:]}"
    return how + (" late" if seconds > SOON else "")


def settle(session: int) -> None:
    """Wait until all that runs in a session sleeps at two looks in a row: it is what it is to be then."""
    deadline = time.monotonic() + SETTLED_SECONDS
    quiet = 0
    while quiet < 2 and not is_busy() and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        quiet = quiet + 1 if states(session) <= {"S", "Z"} else 0


def is_busy() -> bool:
    """Return whether the command says that it never waits."""
    with open(READY) as file:
        return file.read() == "busy\n"


def states(session: int) -> set[str]:
    """Return the states of the processes in a session, each a letter as in proc(5)."""
    found = set()
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, _, _, own_session, *_ = file.read().rpartition(") ")[2].split()
        except (OSError, ValueError):  # it is no process, or has ended meanwhile
            continue
        if own_session == str(session):
            found.add(state)
    return found


def let_go() -> None:
    """Have what waits for it go on."""
    open("going", "a").close()
    if os.path.exists("over") and stat.S_ISFIFO(os.stat("over").st_mode):
        os.close(os.open("over", os.O_RDWR | os.O_NONBLOCK))


name, target, *command = sys.argv[1:]
if os.path.exists(READY):
    os.unlink(READY)
process = start(command)
status = None
while not os.path.exists(READY) and (status := ended(process)) is None:
    time.sleep(0.005)
if status is None:
    settle(process)
sent = time.monotonic()
if status is None:
    (os.kill if target == "shell" else os.killpg)(process, signal.Signals[f"SIG{name}"])
while status is None and (status := ended(process, MOMENT_SECONDS)) is None:
    let_go()
print(ending(status, time.monotonic() - sent))
try:
    os.killpg(process, signal.SIGKILL)
except ProcessLookupError:
    sys.exit()
