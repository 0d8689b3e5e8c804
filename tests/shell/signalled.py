"""Start a command, send it a signal when it waits, and print how it ended.

Usage: `signalled.py SIGNAL shell|group COMMAND...`. `shell` signals the command alone, like KillMode=mixed;
`group` signals its process group, like KillMode=control-group. The signal is sent when the file `ready`
exists and all processes of the command sleep. A command that never sleeps writes `busy` into `ready`. If the
command survives the signal, the file `going` is created, and the FIFO `over` gets a writer for a moment.

Prints `died of TERM` or `exited 3`, with ` late` if that took longer than `LATE_SECONDS`.

Tests start this program hundreds of times, so it imports little.
"""

import os
import signal
import stat
import sys
import time

LOOK_SECONDS = 0.02
SETTLED_SECONDS = 10  # then the command is signalled even if it does not wait
LATE_SECONDS = 15  # less than the children of the scripts under test sleep
MOMENT_SECONDS = 0.5
READY = "ready"


def start(command: list[str]) -> int:
    """Start a command in a new session and return its process id."""
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


def wait_for(pid: int, seconds: float = 0.0) -> int | None:
    """Return the exit status of a process, negative for a signal, or None if it still runs."""
    deadline = time.monotonic() + seconds
    while (found := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(found[1])


def describe(status: int, seconds: float) -> str:
    """Return how a process ended, and whether it was late."""
    how = f"exited {status}" if status >= 0 else f"died of {signal.Signals(-status).name[3:]}"
    return how + (" late" if seconds > LATE_SECONDS else "")


def settle(session: int) -> None:
    """Wait until all processes of a session sleep, in two checks in a row."""
    deadline = time.monotonic() + SETTLED_SECONDS
    quiet = 0
    while quiet < 2 and not is_busy() and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        quiet = quiet + 1 if states(session) <= {"S", "Z"} else 0


def is_busy() -> bool:
    """Return True if the command has reported that it never waits."""
    with open(READY) as file:
        return file.read() == "busy\n"


def states(session: int) -> set[str]:
    """Return the states of a session's processes, as letters of proc(5)."""
    found = set()
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, _, _, own_session, *_ = file.read().rpartition(") ")[2].split()
        except (OSError, ValueError):  # not a process, or it has just ended
            continue
        if own_session == str(session):
            found.add(state)
    return found


def release() -> None:
    """Let a command continue that waits for the file or the FIFO."""
    open("going", "a").close()
    if os.path.exists("over") and stat.S_ISFIFO(os.stat("over").st_mode):
        os.close(os.open("over", os.O_RDWR | os.O_NONBLOCK))


name, target, *command = sys.argv[1:]
if os.path.exists(READY):
    os.unlink(READY)
process = start(command)
status = None
while not os.path.exists(READY) and (status := wait_for(process)) is None:
    time.sleep(0.005)
if status is None:
    settle(process)
sent = time.monotonic()
if status is None:
    (os.kill if target == "shell" else os.killpg)(process, signal.Signals[f"SIG{name}"])
while status is None and (status := wait_for(process, MOMENT_SECONDS)) is None:
    release()
print(describe(status, time.monotonic() - sent))
try:
    os.killpg(process, signal.SIGKILL)
except ProcessLookupError:
    sys.exit()
