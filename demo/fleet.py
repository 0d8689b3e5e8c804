"""Thirty hosts that provision at once, as templates with curl report it: most of them well."""

import http.client
import random
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

STEPS: Final = (
    ("Network boot", 5),
    ("Kickstart download", 10),
    ("Disk setup", 20),
    ("Packages", 70),
    ("Bootloader", 85),
    ("First boot", 95),
    ("Callback", 100),
)
_CHECK: Final = "Packages"
"""The step that tells how far it is while it runs."""
_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Report:
    """A report of a host, and the silence before it, in parts of the whole demonstration."""

    fields: Mapping[str, object]
    after: float


@dataclass(frozen=True, slots=True)
class Machine:
    """A host, what becomes of it, and what the collector is to say of that."""

    name: str
    group: str
    release: str
    expected: str
    fate: str = ""
    pace: float = 1.0

    def reports(self) -> Iterator[Report]:
        """Yield all that it will ever say; a slow host goes on for ever."""
        match self.fate:
            case "boot loop":
                yield from self._boots()
            case "retries":
                yield from self._steps("Disk setup")
                yield from (
                    self._report("Packages", status, 20, logs=logs)
                    for _ in range(4)
                    for status, logs in (("init", ""), ("failed", "Error: mirror 10.0.7.4: timed out"))
                )
            case "slow":
                yield from self._steps("Disk setup")
                while True:
                    yield self._report("Packages", "reported", 31)
            case "never":
                return
            case _:
                yield from self._steps()

    def _steps(self, until: str = "") -> Iterator[Report]:
        failing, _, logs = self.fate.partition(": ")
        for name, percentage in STEPS:
            yield self._report(name, "init", None)
            if f"{failing} hangs" == f"{name} hangs" and not logs:
                return
            if failing == name:
                yield self._report(name, "failed", None, logs=logs)
                return
            if name == _CHECK:
                yield from (self._report(name, "reported", far) for far in (30, 40, 50, 60))
            yield self._report(name, "done", percentage)
            if name == until:
                return

    def _boots(self) -> Iterator[Report]:
        for boot in range(5):
            for name, percentage in STEPS[:2]:
                yield self._report(name, "done", percentage, boot=f"boot-{boot}")

    def _report(self, name: str, status: str, percentage: float | None, **more: object) -> Report:
        fields = {"name": name, "status": status, "action": "install"} | more
        fields |= {"group": self.group, "release": self.release}
        if percentage is not None:
            fields["percentage"] = percentage
        return Report(fields, self.pace * random.uniform(0.5, 1.5) / 30)  # noqa: S311  # no secret


def fleet() -> tuple[Machine, ...]:
    """Thirty of them: 21 come to their end, two are slow, and seven are in trouble, in several ways."""
    fates = {
        4: ("failed", "Disk setup: mdadm: no disk for the array: sdb is missing"),
        9: ("failed", "Disk setup: mdadm: no disk for the array: sdd is missing"),
        13: ("failed", "Bootloader: grub2-install: error: no space left on device"),
        17: ("stuck", "Packages"),
        20: ("looping", "boot loop"),
        23: ("looping", "retries"),
        26: ("silent", "never"),
        28: ("progressing", "slow"),
        29: ("progressing", "slow"),
    }
    return tuple(
        Machine(
            name=f"node{number:02d}",
            group=f"dc{1 + number // 16}/rack{1 + number % 3}",
            release=("9.4", "9.6")[number % 2],
            expected=fates.get(number, ("done", ""))[0],
            fate=fates.get(number, ("done", ""))[1],
            pace=0.6 + 0.02 * number,
        )
        for number in range(1, 31)
    )


@dataclass(slots=True)
class Provisioning:
    """All hosts at once, a thread for each."""

    url: str
    tokens: Mapping[str, str]
    """Group -> the token that its templates have."""
    seconds: float
    """Approximate length of the whole demonstration."""
    _is_over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, machines: tuple[Machine, ...]) -> None:
        """Have them begin."""
        self._threads = [threading.Thread(target=self._provision, args=(machine,)) for machine in machines]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Switch off those that still run."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _provision(self, machine: Machine) -> None:
        for report in machine.reports():
            if self._is_over.wait(report.after * self.seconds):
                return
            with suppress(urllib.error.URLError, http.client.HTTPException, OSError):
                self._send(machine, report)  # as curl in a template: what it cannot say does not stop it

    def _send(self, machine: Machine, report: Report) -> None:
        token = self.tokens[machine.group.partition("/")[0]]
        request = urllib.request.Request(  # noqa: S310  # a URL of ours
            f"{self.url}/api/v1/hosts/{machine.name}/steps",
            urlencode(report.fields).encode(),
            {"Authorization": f"Bearer {token}"},
        )
        urllib.request.urlopen(request, timeout=_PATIENCE).close()  # noqa: S310
