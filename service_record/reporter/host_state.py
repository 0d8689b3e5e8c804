"""Collect the local evidence of a round: the boot, the verdict on the records, and files that show progress.

Nothing here uses the network, except the kubelet's health endpoint on the loopback interface.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Final
from urllib.parse import urlsplit

from service_record.diagnosis import Diagnosis, Verdict
from service_record.diagnosis.causes import Causes, built_in_causes, built_in_rules
from service_record.diagnosis.evidence.error_lines import telling_line
from service_record.diagnosis.failures import signature
from service_record.diagnosis.findings import Trouble
from service_record.diagnosis.judgement import HostFiles, judge
from service_record.diagnosis.units import Unit
from service_record.history import History
from service_record.history.build import Now, host_history
from service_record.history.outcome import Command, Facts, Outcome, Run, Stage
from service_record.history.results import Liveness
from service_record.read.source import files_beside
from service_record.record import systemd
from service_record.record.appending import SUFFIX
from service_record.record.directory import Records, open_record
from service_record.record.entry import Entry, Malformed
from service_record.record.layout import read_entries
from service_record.reporter.paths import Places, is_there

KUBELET: Final = "http://127.0.0.1:10248/healthz"
_KUBELET_SECONDS: Final = 2.0
_MAX_TOTAL_BYTES: Final = 16 << 20
"""The limit for the records of all services together. Judging them takes about four times as much memory."""
_MIN_SERVICE_BYTES: Final = 256 << 10
"""The last bytes of a service's record that are always read, even if there are many services."""

_MACHINE_CONFIG: Final = "/etc/ignition-machine-config-encapsulated.json"
"""The machine configuration that Ignition writes. The machine-config daemon renames it after applying it."""
_APPLIED_FILES: Final = (f"{_MACHINE_CONFIG}.bak", "/etc/machine-config-daemon/currentconfig")
_KUBELET_FILES: Final = (
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
    "/var/lib/kubelet/cpu_manager_state",
)
"""Files that the kubelet writes itself. Its configuration is no sign: Ignition writes that before it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvidence:
    """Everything that a round knows about its host."""

    boot_id: str
    uptime: float
    """Seconds since boot. Unlike the clock, it is never set."""
    kubelet_healthy: bool = False
    is_pending: bool = False
    """True if the machine configuration is on the disk but not applied: a boot with local ignition."""
    is_applied: bool = False
    """True if the machine configuration is applied, or will be after the next reboot."""
    has_kubelet: bool = False
    """True if a kubelet has run on this host."""
    diagnosis: Diagnosis | None = field(default=None, repr=False)
    """The diagnosis shown to people; it includes failed units. None if there is nothing to judge."""
    history: History | None = field(default=None, repr=False)
    unread: str | None = None
    """The reason why no run can be judged, in one line; None if there is one."""
    verdict: Verdict | None = None
    """The verdict on the records alone. The rules use this one. None if there is no run."""
    has_lost_record: bool = False
    """True if a record has damaged parts and not one run: what its service did is unknown."""
    is_only_reboot: bool = False
    """True if every trouble is a run that an earlier boot interrupted: a reboot alone may explain it."""
    fingerprint: str = ""
    """A digest that changes if the host fails in a new way or makes progress; see `fingerprint()`."""
    trouble: str = ""
    """A digest of the root trouble: the same while the host fails in the same way. Empty if there is none."""

    @property
    def root(self) -> Trouble | None:
        """Return the root trouble that is shown to people, or None."""
        return self.diagnosis.root if self.diagnosis is not None else None

    @property
    def is_wrong(self) -> bool:
        return self.has_lost_record or (self.verdict is not None and self.verdict.is_bad)

    @property
    def round(self) -> str:
        """Return the unique name of the round with this evidence."""
        return f"{self.boot_id} {self.uptime:.2f}"


def observe(places: Places) -> HostEvidence:
    """Return the present evidence of this host. Damaged or unreadable records raise nothing."""
    known_boot, uptime = systemd.boot_id(), systemd.uptime()
    boot_id = known_boot or "unknown"
    if uptime is None:
        uptime = clock_gettime(CLOCK_BOOTTIME)
    history, unread = _read_history(places.records, known_boot)
    lost = [each.name for each in history.services if each.malformed and not each.runs] if history else []
    now = Now(time=datetime.now(UTC), boot_id=boot_id, uptime=uptime)
    rules = _load_causes()
    # The rules use the verdict on the records alone. Failed units and live files only explain it to people.
    diagnosis = judge(history, rules, now=now).diagnosis if history else None
    if lost and diagnosis is None:
        unread = f"the record of {lost[0]} is damaged, and no run in it can be read"
    # The reporter's own failures are ignored.
    failed = [unit for unit in systemd.failed_units() if unit != places.service.name]
    files: HostFiles | None = None
    root = diagnosis.root if diagnosis else None
    if root is not None and not (root.cause is not None and root.cause.is_cause):
        files = ((path, BytesIO(data).read) for path, data in _read_live_files(places))
    failed_now = [Unit(name=unit, is_failed=True) for unit in failed]
    explained = judge(history or History(()), rules, failed_now, files=files, now=now).diagnosis
    is_applied = any(is_there(places.at(path)) for path in _APPLIED_FILES)
    return HostEvidence(
        boot_id=boot_id,
        uptime=uptime,
        kubelet_healthy=is_healthy(KUBELET),
        is_pending=is_there(places.at(_MACHINE_CONFIG)) and not is_applied,
        is_applied=is_applied,
        has_kubelet=any(is_there(places.at(path)) for path in _KUBELET_FILES),
        diagnosis=explained,
        history=history,
        unread=unread,
        verdict=diagnosis.verdict if diagnosis else None,
        has_lost_record=bool(lost),
        is_only_reboot=diagnosis is not None and _is_only_reboot(diagnosis, boot_id),
        fingerprint=fingerprint(history, diagnosis, sorted({signature(unit) for unit in failed})),
        trouble=_digest(_trouble_key(root)) if root else "",
    )


def _read_live_files(places: Places) -> Iterable[tuple[str, bytes]]:
    """Return the paths and contents of live evidence, read for at most three seconds.

    Returns nothing if the root is not `/`: the programs would describe the running host.
    """
    if places.root != Path("/"):
        return ()
    from service_record.read.live_host import live_contents  # few rounds need it

    return live_contents()


def is_healthy(url: str) -> bool:
    """Return whether the health endpoint at `url` answers 200 within two seconds."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_KUBELET_SECONDS)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200  # noqa: PLR2004  # OK, in HTTP
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def fingerprint(history: History | None, diagnosis: Diagnosis | None, units: Sequence[str]) -> str:
    """Return a digest of the verdict, the failed units, the progress of services and their failures.

    Times and repetitions are left out, so a failure that happens again does not change the digest.
    """
    services = history.services if history else ()
    return _digest(
        [
            diagnosis.verdict if diagnosis else None,
            _trouble_key(diagnosis.root) if diagnosis and diagnosis.root else None,
            sorted({_trouble_key(trouble) for trouble in _list_troubles(diagnosis)}),
            sorted({row for service in services for row in _end_rows(service.runs)}),
            sorted({service.name for service in services if service.malformed}),
            units,
        ]
    )


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _read_history(records: Path, boot_id: str | None) -> tuple[History | None, str | None]:
    """Return the history of this host and None, or None and the reason why there is no history."""
    try:
        services = Records(records).services()
        if not services:
            return None, f"{records}: no records; services make them when they first record"
        most = max(_MIN_SERVICE_BYTES, _MAX_TOTAL_BYTES // len(services))
        pieces = [(service, _read_end(records / f"{service}{SUFFIX}", most)) for service in services]
        liveness = Liveness(boot_id, is_at_home=True, is_alive=systemd.is_alive)
        return host_history(pieces, liveness, **files_beside(records, services)), None
    except (OSError, RecursionError, MemoryError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        return None, f"{records}: cannot be read: {why}"


def _read_end(record: Path, most: int) -> Iterator[Entry | Malformed]:
    """Yield the entries of the last `most` bytes of a record, from the first complete line on."""
    with os.fdopen(open_record(record), "rb") as stream:
        if stream.seek(0, os.SEEK_END) > most:
            stream.seek(-most, os.SEEK_END)
            stream.readline(most)
        else:
            stream.seek(0)
        yield from read_entries(stream)


def _load_causes() -> Causes:
    """Return the built-in causes; none if the disk cannot read them. The verdict does not need them."""
    try:
        built_in_rules()  # `built_in_causes` reads them on first use, when an error is too late
    except OSError:
        return Causes(())
    return built_in_causes()


def _end_rows(runs: Iterable[Run]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each run, command and stage that succeeded or failed.

    Running ones are left out: their position differs in each round.
    """
    for run in runs:
        inner = (stage for command in run.commands for stage in command.stages)
        spans: tuple[Command | Stage, ...] = (*run.commands, *run.stages, *inner)
        ended = (Outcome.SUCCESS, Outcome.FAILURE)
        yield from (
            (run.service, span.name, span.outcome, _failure_key(span.facts))
            for span in spans
            if span.outcome in ended
        )
        if run.outcome in ended:
            yield run.service, "", run.outcome, _failure_key(run.facts)


def _trouble_key(trouble: Trouble) -> tuple[str, ...]:
    of = trouble.loop.of if trouble.loop else ""
    return trouble.service, trouble.kind, trouble.stage or "", of, _failure_key(trouble.facts)


def _failure_key(facts: Facts) -> str:
    """Return the place, the exit status and the telling line of an end as JSON, without variable parts."""
    location = facts.location
    place = (location.line, location.function, location.file) if location else None
    message = signature(telling_line(facts.message) or "")
    return json.dumps([place, facts.exit_code, facts.signal, facts.service_result, message])


def _is_only_reboot(diagnosis: Diagnosis, boot_id: str) -> bool:
    """Return whether every trouble is a run that was interrupted in an earlier boot.

    Shortly after a reboot, the service may not have recorded anything in this boot yet.
    """
    troubles = _list_troubles(diagnosis)
    return bool(troubles) and all(
        trouble.kind is Verdict.INTERRUPTED and trouble.run.boot_id not in {None, boot_id}
        for trouble in troubles
    )


def _list_troubles(diagnosis: Diagnosis | None) -> list[Trouble]:
    if diagnosis is None:
        return []
    return [trouble for trouble in (diagnosis.root, *diagnosis.followers, *diagnosis.others) if trouble]
