"""Services that are killed because they exceed a memory limit.

With version 2 of the control groups, systemd learns of the kernel's kill. Where version 1 limits memory, the
service enters a group of the test with such a limit, and systemd learns only of a SIGKILL.
"""

from collections.abc import Iterator

import pytest

from service_record.history.outcome import Outcome
from testing import cgroup
from testing.machine import Machine

LIMIT = 64 << 20
BODY = """
record_service_stage_start fill-memory
[[ ! -e /limit/cgroup.procs ]] || echo $$ >/limit/cgroup.procs
filler=$(head --bytes=256M /dev/zero | tr '\\0' x)
record_service_stage_success
"""

# systemd-oomd(8) marks a control group before it kills the processes in it.
MARKED = """
import os, signal
group = open("/proc/self/cgroup").read().rpartition("::")[2].strip()
with service_record.service(), service_record.stage("fill-memory"):
    os.setxattr(f"/sys/fs/cgroup{group}", "user.oomd_ooms", b"1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def limit(machine: Machine) -> Iterator[str]:
    """Create the limit; yield the expected $SERVICE_RESULT."""
    machine.bash_service("greedy", BODY, f"MemoryMax={LIMIT}", "MemorySwapMax=0", "OOMPolicy=continue")
    hierarchies = cgroup.limiting("memory")
    if not hierarchies and not cgroup.is_delegated("memory"):
        pytest.skip("memory limits cannot be had here")
    with cgroup.groups(hierarchies) as groups:
        for group in groups:
            (group / "memory.limit_in_bytes").write_text(str(LIMIT))
            machine.bind(group, "/limit")
        yield "signal" if groups else "oom-kill"


def test_memory_limit_kill_is_a_failure(machine: Machine, limit: str) -> None:
    machine.drop_in("greedy")
    machine.boot("start greedy; rest greedy")

    (run,) = machine.runs("greedy")
    assert (run.outcome, run.in_stage) == (Outcome.FAILURE, "fill-memory")
    assert run.facts.signal == "KILL"
    assert run.facts.service_result == limit


def test_kill_by_oomd_is_named(machine: Machine) -> None:
    machine.python_service("greedy", MARKED)
    machine.drop_in("greedy")
    machine.boot("start greedy; rest greedy")

    (run,) = machine.runs("greedy")
    assert (run.outcome, run.in_stage) == (Outcome.FAILURE, "fill-memory")
    assert (run.facts.signal, run.facts.service_result) == ("KILL", "oom-kill")
