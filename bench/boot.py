"""`make bench-boot`: what the drop-in for all services costs a boot and a shutdown; it goes into
docs/project/performance.md.

Boots a machine of 40 services that know nothing of us, 20 oneshots and 20 daemons, with and without the
drop-in, in turn. It needs root and systemd-nspawn, and takes half a minute.
"""

import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from bench.machine import machine as this_machine
from bench.table import aligned, duration, replace_between
from testing.machine import CLOSE_HELPER, Machine, why_not

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "project" / "performance.md"
ROUNDS: Final = 5
ONESHOTS: Final = tuple(f"oneshot-{number}" for number in range(20))
DAEMONS: Final = tuple(f"daemon-{number}" for number in range(20))
HEAD: Final = (
    "what",
    "without",
    "with the drop-in",
    "more for a service",
    "if all ends were left to bash",
    "ratio",
)

# Ends when every service has started. A job of a oneshot is done when its ExecStopPost= is.
SCENARIO: Final = f"""
while systemctl list-jobs --plain --no-legend | grep -q 'oneshot-\\|daemon-'; do sleep 0.02; done
systemctl show --property=UserspaceTimestampMonotonic --value
systemctl show --property=InactiveEnterTimestampMonotonic --value {" ".join(ONESHOTS)}
date +%s.%N
"""

Measured = tuple[float, float, float]
"""Seconds from the start of systemd until all services have started, seconds of the shutdown, and processor
time of both."""


def boot(configure: Callable[[Machine], None]) -> Measured:
    """Return what one boot of a new machine takes."""
    with tempfile.TemporaryDirectory(prefix="service-record-boot-") as directory:
        machine = Machine(Path(directory), wants=tuple(f"{name}.service" for name in (*ONESHOTS, *DAEMONS)))
        for name in ONESHOTS:
            machine.unit(name, "Type=oneshot", "ExecStart=/bin/true")
        for name in DAEMONS:
            machine.unit(name, "ExecStart=/bin/sleep infinity")
        configure(machine)
        used = _processor_time()
        output = machine.boot(SCENARIO)
        ended, used = time.time(), _processor_time() - used
    numbers = [float(number) for number in re.findall(r"^[0-9.]+$", output, re.MULTILINE)]
    begin, *finished, asked = numbers
    if len(finished) != len(ONESHOTS) or min(finished) == 0:
        raise ValueError(f"not every service has ended: {output}")
    return (max(finished) - begin) / 1e6, ended - asked, used


def _processor_time() -> float:
    """Return the processor time of all programs that have ended, those of ended machines among them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def without(machine: Machine) -> None:
    """Leave the machine as it is."""


def with_drop_in(machine: Machine) -> None:
    machine.tmpfiles()
    machine.drop_in()


def all_by_bash(machine: Machine) -> None:
    """Have the other half of the exit helper handle ordinary ends, too."""
    with_drop_in(machine)
    machine.program("service-record-exit.sh", f'#!/bin/sh\nexec "/usr/local/bin/{CLOSE_HELPER.name}"\n')


def measured() -> str:
    """Return the table."""
    variants = (without, with_drop_in, all_by_bash)
    rounds = [[boot(variant) for variant in variants] for _ in range(ROUNDS)]
    rows = [HEAD]
    for place, what, services in (
        (0, "from the start of systemd until 40 services have started", len(ONESHOTS)),
        (1, "shutdown with 20 daemons", len(DAEMONS)),
        (2, "processor time of both", len(ONESHOTS) + len(DAEMONS)),
    ):
        plain, ours, bash = (
            median(each[number][place] for each in rounds) for number in range(len(variants))
        )
        more, by_bash = (duration(max(time - plain, 0) / services) for time in (ours, bash))
        ratio = f"1/{(bash - plain) / (ours - plain):.1f}" if ours > plain else ""
        rows.append((what, duration(plain), duration(ours), more, by_bash, ratio))
    return aligned(rows)


def main() -> int:
    obstacle = why_not()
    if obstacle is not None:
        print(f"bench-boot: {obstacle}", file=sys.stderr)
        return 1
    text = f"{this_machine()}\n\n{measured()}"
    print(text)
    replace_between(PAGE, "boot", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
