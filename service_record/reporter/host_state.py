"""State of a host without a network: which boot this is, how far it came, what is wrong."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Final
from urllib.parse import urlsplit

from service_record.diagnosis import Diagnosis, Verdict
from service_record.diagnosis.causes import Causes, HostFiles, built_in_causes
from service_record.diagnosis.failures import signature
from service_record.diagnosis.findings import Trouble
from service_record.diagnosis.judgement import judge
from service_record.diagnosis.trouble_facts import telling_line
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
_SECONDS: Final = 2.0
_MOST_READ: Final = 16 << 20
"""Bytes of records that are judged, all services together: they take four times as much of memory."""
_LEAST_READ: Final = 256 << 10
"""The part read of one service's record, however many services there are."""

_ENCAPSULATED: Final = "/etc/ignition-machine-config-encapsulated.json"
"""The machine configuration as Ignition left it; done with it, the machine-config daemon renames it."""
_DONE: Final = (f"{_ENCAPSULATED}.bak", "/etc/machine-config-daemon/currentconfig")
_KUBELET: Final = ("/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/cpu_manager_state")
"""Files that a kubelet writes once it has run; its configuration is there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Traces of the machine-config daemon and the kubelet on the disk."""

    is_pending: bool = False
    """The machine configuration has come, and is not in effect: a boot with local ignition."""
    is_applied: bool = False
    """True if it is in effect, or will be after the reboot that follows."""
    has_kubelet: bool = False
    """A kubelet has run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvidence:
    """The known facts of this host at one round."""

    boot_id: str
    uptime: float
    """Seconds since boot; what is measured by it no setting of the clock changes."""
    kubelet_healthy: bool = False
    traces: Traces = field(default_factory=Traces)
    diagnosis: Diagnosis | None = field(default=None, repr=False)
    """The diagnosis for people, with the units that failed. None when there is nothing to judge."""
    history: History | None = field(default=None, repr=False)
    unread: str | None = None
    """The reason why the records could not be read, in one line."""
    verdict: Verdict | None = None
    """The verdict by the records alone, which decide what the reporter does; None when there is no record
    to judge.
    """
    is_reboots: bool = False
    """True when what is wrong may be no more than that the host was rebooted."""
    fingerprint: str = ""
    """The same as long as nothing new is wrong with the host, and it came no further."""
    trouble: str = ""
    """A digest of the first trouble: the same while the host fails in the same way. Empty without one."""

    @property
    def is_wrong(self) -> bool:
        return self.verdict is not None and self.verdict.is_bad


def _live_files(places: Places) -> Iterable[tuple[str, bytes]]:
    """Return what this host shows, for at most three seconds; nothing of one below another root."""
    if places.at("/") != Path("/"):
        return ()
    from service_record.read.live_host import live_contents  # only when something is wrong

    return live_contents()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProbes:
    """Questions to the kernel, systemd and the kubelet."""

    boot_id: Callable[[], str | None] = systemd.boot_id
    uptime: Callable[[], float | None] = systemd.uptime
    failed_units: Callable[[], tuple[str, ...]] = systemd.failed_units
    kubelet: str = KUBELET
    files: Callable[[Places], Iterable[tuple[str, bytes]]] = _live_files
    """The evidence of what is wrong: the journal and whatever else lies beside the records."""


def observe(places: Places, probes: HostProbes | None = None, own: Iterable[str] = ()) -> HostEvidence:
    """Return the evidence of this moment.

    `own` units say nothing about the host. Never raises on what it finds.
    """
    probes = probes or HostProbes()
    known_boot, uptime = probes.boot_id(), probes.uptime()
    boot_id = known_boot or "unknown"
    if uptime is None:
        uptime = clock_gettime(CLOCK_BOOTTIME)
    history, unread = _history(places.records, known_boot)
    now = Now(time=datetime.now(UTC), boot_id=boot_id, uptime=uptime)
    rules = _known_causes()
    # What the reporter does follows from the records alone. Failed units and files only explain it to people.
    diagnosis = judge(history, rules, now=now).diagnosis if history else None
    failed = [unit for unit in probes.failed_units() if unit not in set(own)]
    files: HostFiles | None = None
    if diagnosis is not None and not _is_explained(diagnosis):
        files = ((path, BytesIO(data).read) for path, data in probes.files(places))
    failed_now = [Unit(name=unit, is_failed=True) for unit in failed]
    explained = judge(history or History(()), rules, failed_now, files=files, now=now).diagnosis
    units = tuple(sorted({signature(unit) for unit in failed} - set(own)))
    return HostEvidence(
        boot_id=boot_id,
        uptime=uptime,
        kubelet_healthy=is_healthy(probes.kubelet),
        traces=traces(places),
        diagnosis=explained,
        history=history,
        unread=unread,
        verdict=diagnosis.verdict if diagnosis else None,
        is_reboots=diagnosis is not None and _is_reboots(diagnosis, boot_id),
        fingerprint=fingerprint(history, diagnosis, units),
        trouble=_digest(_trouble(diagnosis.root)) if diagnosis and diagnosis.root else "",
    )


def traces(places: Places) -> Traces:
    """Return the traces on the host's disk below the root; those that a failing disk hides are missing."""
    is_applied = any(is_there(places.at(path)) for path in _DONE)
    return Traces(
        is_pending=is_there(places.at(_ENCAPSULATED)) and not is_applied,
        is_applied=is_applied,
        has_kubelet=any(is_there(places.at(path)) for path in _KUBELET),
    )


def is_healthy(url: str) -> bool:
    """Return whether a kubelet answers at its local health endpoint that it is well, within two seconds."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_SECONDS)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().status == 200  # noqa: PLR2004  # OK, in HTTP
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def fingerprint(history: History | None, diagnosis: Diagnosis | None, units: Iterable[str]) -> str:
    """Return a digest of the facts that matter about a host.

    How far services came, how they failed and with which signature, and the verdict: each only once. So the
    same failure at another time, or the thousandth time, changes nothing.
    """
    reached = {row for service in (history.services if history else ()) for row in _reached(service.runs)}
    troubles = _troubles(diagnosis) if diagnosis else []
    wrong = {_trouble(trouble) for trouble in troubles}
    damaged = {service.name for service in (history.services if history else ()) if service.malformed}
    document = [
        diagnosis.verdict if diagnosis else None,
        _trouble(diagnosis.root) if diagnosis and diagnosis.root else None,
        sorted(wrong),
        sorted(reached),
        sorted(damaged),
        sorted(units),
    ]
    return _digest(document)


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _history(records: Path, boot_id: str | None) -> tuple[History | None, str | None]:
    """Return the history of this host, and why there is none."""
    try:
        services = Records(records).services()
        if not services:
            return None, f"{records}: no records; services make them when they first record"
        most = max(_LEAST_READ, _MOST_READ // len(services))
        pieces = [(service, _latest(records / f"{service}{SUFFIX}", most)) for service in services]
        liveness = Liveness(boot_id, is_at_home=True, is_alive=systemd.is_alive)
        return host_history(pieces, liveness, **files_beside(records, services)), None
    except (OSError, RecursionError, MemoryError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        return None, f"{records}: cannot be read: {why}"


def _latest(record: Path, most: int) -> Iterator[Entry | Malformed]:
    """Yield the pieces of a record; of a long one those at its end, from the first line that is whole."""
    with os.fdopen(open_record(record), "rb") as stream:
        if stream.seek(0, os.SEEK_END) > most:
            stream.seek(-most, os.SEEK_END)
            stream.readline(most)
        else:
            stream.seek(0)
        yield from read_entries(stream)


def _is_explained(diagnosis: Diagnosis) -> bool:
    """Return whether nothing is wrong, or the records tell why."""
    root = diagnosis.root
    return root is None or (root.cause is not None and root.cause.is_cause)


def _known_causes() -> Causes:
    """Return None where the disk does not give them: what failed is known without."""
    try:
        return built_in_causes()
    except OSError:
        return Causes(())


def _reached(runs: Iterable[Run]) -> Iterator[tuple[str, ...]]:
    """Yield how runs ended.

    Of running ones, yield only their ended parts: where they are now always differs.
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


def _trouble(trouble: Trouble) -> tuple[str, ...]:
    of = trouble.loop.of if trouble.loop else ""
    return trouble.service, trouble.kind, trouble.stage or "", of, _failure_key(trouble.facts)


def _failure_key(facts: Facts) -> str:
    """Return how something ended: where, its status, and its most telling line, without the
    variable parts.
    """
    location = facts.location
    place = (location.line, location.function, location.file) if location else None
    message = signature(telling_line(facts.message) or "")
    return json.dumps([place, facts.exit_code, facts.signal, facts.service_result, message])


def _is_reboots(diagnosis: Diagnosis, boot_id: str) -> bool:
    """Return whether all that is wrong was interrupted in an earlier boot; this one may have no entry yet."""
    troubles = _troubles(diagnosis)
    return bool(troubles) and all(
        trouble.kind is Verdict.INTERRUPTED and trouble.run.boot_id not in {None, boot_id}
        for trouble in troubles
    )


def _troubles(diagnosis: Diagnosis) -> list[Trouble]:
    return [trouble for trouble in (diagnosis.root, *diagnosis.followers, *diagnosis.others) if trouble]
