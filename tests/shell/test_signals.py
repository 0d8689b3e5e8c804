"""A signal at each system call of the shim: handlers, traps, descriptors and status stay the service's own.

strace counts the system calls of one kind from the start of a process, and sends a signal with the N-th.
"""

import fcntl
import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell.scripts import FINDER, SHIM, Bash, environment, every_bash
from tests.shell.services import needs_strace

CALL = re.compile(r"^(\w+)\((.*)$")
NOT_A_POINT = {"execve", "rt_sigreturn", "exit_group"}
FORKS = {"clone", "clone3", "vfork", "fork"}
"""A signal with a fork also reaches strace's own bookkeeping of the child: it comes with the next call."""
MEMORY_ONLY = ("openat", "read", "close", "dup2", "fcntl", "lseek", "write", "pipe2", "wait4", "newfstatat")
"""System calls that the handler below does not make."""

SERVICE = """
set -euo pipefail
exec 3>>own
trap 'echo bye >>ran; echo bye; echo bye >&2; echo bye >&3' EXIT
{before}
. "$SHIM"
[[ -e /begin ]] || :
record_service_stage_start one
record_service_stage_success
record_service_stage_start two
record_service_stage_failure
[[ -e /end ]] || :
{after}
"""
HANDLED = """
set -euo pipefail
IFS=,
. "$SHIM"
seen=()
handler() { seen+=("$?|$-|$IFS|${LC_ALL-unset}|${TZ-unset}|${TMPDIR-unset}"); }
trap handler USR1
[[ -e /begin ]] || :
record_service_stage_start one
record_service_stage_success
record_service_stage_start two
record_service_stage_failure
record_service_stage_start three
record_service_stage_success
trap '' USR1
printf '%s\\n' "${#seen[@]}" "${seen[@]}"
"""
HANDLED_WHILE_SOURCING = """
set -euo pipefail
IFS=,
seen=()
handler() { seen+=("$?|$-|$IFS|${LC_ALL-unset}|${TZ-unset}|${TMPDIR-unset}"); }
trap handler USR1
[[ -e /sourcing ]] || :
. "$SHIM"
trap '' USR1
printf '%s\\n' "${#seen[@]}" "${seen[@]}"
"""
CREATES = """
umask 022
trap 'umask >>ran' EXIT
{before}
. "$SHIM"
[[ -e /begin ]] || :
umask >>ran
trap - EXIT
"""
HANDLER_THAT_FAILS = """
set -euo pipefail
. "$SHIM"
trap 'echo handled >&2; false; echo "not under set -e"' USR1
[[ -e /begin ]] || :
record_service_stage_start one
record_service_stage_success
record_service_stage_failure
[[ -e /end ]] || :
echo end
"""

each_layout = pytest.mark.parametrize("layout", ["lines", "array"])


class Service:
    """A script in a directory of its own, with a record that exists, or with a new one for each run."""

    def __init__(
        self, bash: Bash, directory: Path, layout: str, text: str, *, is_record_new: bool = False
    ) -> None:
        self.is_record_new = is_record_new
        self.bash = bash
        self.directory = directory
        self.env = environment(directory) | {"SERVICE_RECORDS_LAYOUT": layout}
        self.record = directory / "records" / "service.json"
        directory.joinpath("shim.sh").symlink_to(SHIM)
        directory.joinpath(FINDER.name).symlink_to(FINDER)
        directory.joinpath("service.sh").write_text(text)
        directory.joinpath("first.sh").write_text('. "$SHIM"\n')
        subprocess.run([bash.path, "first.sh"], cwd=directory, env=self.env, check=True)
        self.empty = self.record.read_bytes()

    def run(self, *strace: str) -> subprocess.CompletedProcess[str]:
        """Run the service under strace; a record that exists begins as it was after the first run."""
        self.record.write_bytes(self.empty)
        if self.is_record_new:
            self.record.unlink()
        for printed in ("own", "ran"):
            self.directory.joinpath(printed).unlink(missing_ok=True)
        return subprocess.run(
            ["strace", "-qq", "-s", "200", "-o", "trace", *strace, str(self.bash.path), "service.sh"],
            cwd=self.directory,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            restore_signals=True,
        )

    def run_with_signals(
        self, name: str, points: list[tuple[str, int]], begin: str, end: str
    ) -> Iterator[tuple[str, subprocess.CompletedProcess[str]]]:
        """Run the service for each point, with a signal there: yield where it came and how the service ended.

        The number of a call can differ from run to run: a child's output is read in pieces, and when a
        minute begins, bash reads the time zone once more. Only runs in which the signal came between the
        looks for `begin` and `end` count; there are several tries for each point.
        """
        count = 0
        for call, number in points:
            for _ in range(3):
                ended = self.run("-e", f"inject={call}:signal={name}:when={number}")
                before, found, _after = (self.directory / "trace").read_text().partition(f"\n--- SIG{name} ")
                if found and (not begin or f'"{begin}"' in before) and not (end and f'"{end}"' in before):
                    count += 1
                    yield f"{name} at {call} {number}", ended
                    break
        assert count > 0.9 * len(points)

    def points(self, begin: str, end: str) -> list[tuple[str, int]]:
        """Return the system calls between two looks for a path: name, and number of that name."""
        self.run()
        counts: Counter[str] = Counter()
        found = []
        inside = not begin
        for line in (self.directory / "trace").read_text().splitlines():
            if (call := CALL.match(line)) is None:
                continue
            name, arguments = call.groups()
            counts[name] += 1
            if end and f'"{end}"' in arguments:
                break
            if inside and name not in NOT_A_POINT | FORKS:
                found.append((name, counts[name]))
            if begin and f'"{begin}"' in arguments:
                inside = True
        return found

    def ends(self) -> list[dict[str, str]]:
        """Return the service ends of the last run; fails if an entry is damaged."""
        with self.record.open() as record:
            # A shell that a signal ends does not wait for its child, which writes arrays under this lock.
            fcntl.flock(record, fcntl.LOCK_EX)
            text = record.read()
        if text.startswith("["):
            entries = json.loads(text)
        else:
            entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [entry for entry in entries if entry["phase"] == "service end"][1:]


def points_for(service: Service, begin: str, end: str, *, every: int) -> list[tuple[str, int]]:
    """Return all points for the system's bash; for the others each `every`-th, from a different one for each.

    All points of all versions would take an hour.
    """
    place = every_bash().index(service.bash)
    points = service.points(begin, end)
    return points if place == 0 else points[place % every :: every]


def check_states(service: Service, begin: str) -> int:
    """Have the handler run at each of our system calls, in one run for each name; return how often it ran.

    The handler makes no system call of its own.
    """
    first = dict(reversed(service.points(begin, "")))
    handled = 0
    for call in MEMORY_ONLY:
        if call not in first:
            continue
        ended = service.run("-e", f"inject={call}:signal=USR1:when={first[call]}+")
        count, *states = ended.stdout.splitlines()
        assert (call, ended.returncode, ended.stderr) == (call, 0, "")
        handled += int(count)
        own = {state.split("|", 1)[1] for state in states}
        assert (call, own) in ((call, set()), (call, {"ehuB|,|unset|unset|unset"}))
        assert [end["result"] for end in service.ends()] == ["success"]
    return handled


@needs_strace
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
@each_layout
@pytest.mark.parametrize("name", ["TERM", "PIPE"])
def test_fatal_signal_leaves_traps_and_descriptors(
    bash: Bash, layout: str, name: str, tmp_path: Path
) -> None:
    service = Service(bash, tmp_path, layout, SERVICE.format(before="", after="exit 0"))
    points = points_for(service, "/begin", "/end", every=4 if name == "TERM" else 16)
    assert len(points) > 5

    for where, ended in service.run_with_signals(name, points, "/begin", "/end"):
        assert (where, ended.returncode) == (where, -signal.Signals[f"SIG{name}"])
        assert (where, (tmp_path / "own").read_text()) == (where, "bye\n")
        assert (where, [end["result"] for end in service.ends()]) == (where, ["failure"])
        # If the signal is pending while bash makes a process, the process inherits that and dies, too. Bash
        # itself prints this word while it waits for the process, before any command of the shim could run.
        stderr = [
            line
            for line in ended.stderr.splitlines()
            if not re.fullmatch(r"(\S+: line \d+: +\d+ )?Terminated *", line)
        ]
        assert len(ended.stderr.splitlines()) - len(stderr) <= 1
        assert (where, ended.stdout, stderr) == (where, "bye\n", ["bye"])


@needs_strace
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
@each_layout
@pytest.mark.parametrize("status", [0, 4])
def test_fatal_signal_at_the_exit_is_no_success(bash: Bash, layout: str, status: int, tmp_path: Path) -> None:
    """The EXIT trap has begun by then. It runs once or is cut short, as without the shim."""
    service = Service(bash, tmp_path, layout, SERVICE.format(before="", after=f"exit {status}"))
    points = points_for(service, "/end", "", every=8)
    assert len(points) > 5

    for where, ended in service.run_with_signals("TERM", points, "/end", ""):
        printed = (ended.stdout, ended.stderr, (tmp_path / "own").read_text())
        results = [end["result"] for end in service.ends()]
        assert (where, ended.returncode) in ((where, -signal.SIGTERM), (where, status))
        assert (where, set(printed) <= {"", "bye\n"}) == (where, True)
        assert (where, results) in ((where, []), (where, ["failure" if status else "success"]))
        if ended.returncode == status:
            assert (where, printed, len(results)) == (where, ("bye\n",) * 3, 1)
        if results == ["success"]:  # it is recorded last
            assert (where, printed) == (where, ("bye\n",) * 3)


@needs_strace
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
@each_layout
@pytest.mark.parametrize("name", ["TERM", "PIPE"])
def test_fatal_signal_while_sourcing_is_no_success(
    bash: Bash, layout: str, name: str, tmp_path: Path
) -> None:
    service = Service(bash, tmp_path, layout, SERVICE.format(before="[[ -e /sourcing ]] || :", after=""))

    points = points_for(service, "/sourcing", "/begin", every=8 if name == "TERM" else 32)
    if bash.version < "5.1":
        # The first `trap -p` of these sets each signal to its default action for one system call.
        points = [point for point in points if point[0] != "rt_sigaction"]
    for where, ended in service.run_with_signals(name, points, "/sourcing", "/begin"):
        assert (where, ended.returncode) == (where, -signal.Signals[f"SIG{name}"])
        # The trap runs once. Its output may be lost, because its descriptors are not restored:
        # docs/shell-guarantees.md.
        assert (where, (tmp_path / "ran").read_text()) == (where, "bye\n")
        assert (where, [end["result"] for end in service.ends() if end["result"] == "success"]) == (where, [])


@needs_strace
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
@pytest.mark.parametrize(("before", "signal_name"), [("", "TERM"), ("trap 'exit 5' USR1", "USR1")])
def test_service_ending_at_record_creation_has_umask(
    bash: Bash, before: str, signal_name: str, tmp_path: Path
) -> None:
    text = CREATES.format(before=f"{before}\n[[ -e /sourcing ]] || :")
    service = Service(bash, tmp_path, "lines", text, is_record_new=True)
    points = service.points("/sourcing", "/begin")
    changes = [place for place, (call, _) in enumerate(points) if call == "umask"]
    assert len(changes) == 2  # in this process, so none was forked for the record

    around = points[changes[0] - 2 : changes[1] + 4]
    for where, ended in service.run_with_signals(signal_name, around, "/sourcing", "/begin"):
        assert (where, ended.returncode) == (where, 5 if before else -signal.SIGTERM)
        assert (where, (tmp_path / "ran").read_text()) == (where, "0022\n")


@needs_strace
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
@each_layout
def test_handler_runs_in_its_own_state_while_sourcing(bash: Bash, layout: str, tmp_path: Path) -> None:
    service = Service(bash, tmp_path, layout, HANDLED_WHILE_SOURCING)
    handled = check_states(service, "/sourcing")

    assert handled > 50


@needs_strace
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
@each_layout
def test_handler_sees_the_services_own_state(bash: Bash, layout: str, tmp_path: Path) -> None:
    service = Service(bash, tmp_path, layout, HANDLED)

    assert check_states(service, "/begin") > 50


@needs_strace
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bash", every_bash(), ids=str)
@each_layout
def test_failing_handler_ends_the_service(bash: Bash, layout: str, tmp_path: Path) -> None:
    service = Service(bash, tmp_path, layout, HANDLER_THAT_FAILS)

    points = points_for(service, "/begin", "/end", every=4)
    for where, ended in service.run_with_signals("USR1", points, "/begin", "/end"):
        assert (where, ended.returncode, ended.stdout) == (where, 1, "")
        assert (where, ended.stderr.splitlines()[-1:]) == (where, ["handled"])
        assert (where, [end["result"] for end in service.ends()]) == (where, ["failure"])
