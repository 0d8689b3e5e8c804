"""Summary of a host's records: its services, and the verdict that `analyze` would give. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.diagnosis import Diagnosis
from service_record.diagnosis.causes import HostFiles, built_in_causes
from service_record.diagnosis.judgement import judge
from service_record.diagnosis.units import read_texts
from service_record.display.sentences import cause_sentence, verdict_sentence
from service_record.history import History, ServiceHistory
from service_record.history.build import Now, host_history, latest_entry
from service_record.history.results import Liveness
from service_record.record.entry import Entry, Piece

MOST_SERVICES: Final = 1_000
_MOST_BOOTS: Final = 64
_MOST_LEFT_OUT: Final = 32
_LONGEST: Final = 2_000
"""Characters of a reason, and of what was left out."""
_LONGEST_NAME: Final = 255


class ServiceSeen(msgspec.Struct, frozen=True):
    """A service with a record."""

    service: str
    entries: int
    malformed: int
    outcome: str
    """The outcome of its latest attempt; empty if there is none."""
    stage: str
    """The stage that it is in, failed in or was interrupted in."""


class RecordsLook(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one look at records."""

    services: tuple[ServiceSeen, ...] = ()
    verdict: str = ""
    """A word of `diagnosis.Verdict`; empty where no service has a run, and nothing is of a host."""
    reason: str = ""
    """A sentence that goes on behind the verdict."""
    why: str = ""
    """The end of it, behind service and stage, where something is wrong."""
    service: str = ""
    """The one that is the root cause, where something is wrong."""
    stage: str = ""
    boots: tuple[str, ...] = ()
    """Oldest first."""
    hardware: str = ""
    """Vendor and model of the machine, from the other files of a bundle."""
    left_out: tuple[str, ...] = ()
    """The parts that could not be read, with the reason."""


@dataclass(frozen=True, slots=True)
class JudgedRecords:
    """Records that were read and diagnosed once, for a summary and for a page."""

    history: History
    moment: Now
    diagnosis: Diagnosis | None
    entries: Mapping[str, int]
    """Service -> how many."""
    left_out: tuple[str, ...]
    """The parts that could not be read, with the reason."""
    hardware: str = ""
    """Vendor and model of the machine."""


class BesideRecords(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle has beside the entries of its records."""

    boot_id: str | None = None
    """The boot that made the bundle, if its manifest names it: runs of other boots are over."""
    written: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Service -> when its file was last written, in seconds since 1970."""
    unfinished: Collection[str] = ()
    """Services with a file beside theirs that was to replace it."""
    damaged: Collection[str] = ()
    """Services with a copy of damaged bytes beside their record."""
    unit_texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Path and text of the files that say which units failed."""
    files: HostFiles = ()
    """All its other files."""
    is_log_bundle: bool = False
    """True for what OpenShift's gather makes of a bootstrap host."""


def judge_records(
    records: Iterable[tuple[str, Iterable[Piece]]],
    left_out: Iterable[str] = (),
    silence: float | None = None,
    beside: BesideRecords | None = None,
) -> JudgedRecords:
    """Read records once, and judge them as of their latest entry, or `silence` seconds later.

    Records that are sent as they are written have nothing `beside` them, and what runs in them still runs.
    """
    counts: dict[str, int] = {}
    beside = beside or BesideRecords()
    history = host_history(
        ((service, _counted(service, record, counts)) for service, record in _first(records)),
        Liveness(beside.boot_id, is_at_home=beside.boot_id is not None),
        written=beside.written,
        unfinished=beside.unfinished,
        damaged=beside.damaged,
    )
    moment, units = _moment_of(history, silence), read_texts(beside.unit_texts)
    judgement = judge(
        history,
        built_in_causes(),
        units,
        files=beside.files,
        now=moment,
        is_log_bundle=beside.is_log_bundle,
    )
    hardware = " ".join(fact.value for fact in judgement.facts.all("hardware"))[:_LONGEST_NAME]
    reasons = tuple(text[:_LONGEST] for text in left_out)[:_MOST_LEFT_OUT]
    return JudgedRecords(history, moment, judgement.diagnosis, counts, reasons, hardware)


def summarise(judged: JudgedRecords) -> RecordsLook:
    """Return the summary of records that the database stores."""
    diagnosis = judged.diagnosis
    return RecordsLook(
        services=tuple(_service_fields(service, judged.entries) for service in judged.history.services),
        boots=judged.history.boots[-_MOST_BOOTS:],
        hardware=judged.hardware,
        left_out=judged.left_out,
        **(_summary_fields(diagnosis) if diagnosis is not None else {}),
    )


def _moment_of(history: History, silence: float | None) -> Now:
    """Return the moment at which records are judged: their latest entry, or so many seconds later."""
    latest = latest_entry(history)
    if silence is None:
        return latest
    uptime = None if latest.uptime is None else latest.uptime + silence
    return replace(
        latest, time=latest.time + timedelta(seconds=silence), uptime=uptime, is_latest_entry=False
    )


def _first(records: Iterable[tuple[str, Iterable[Piece]]]) -> Iterator[tuple[str, Iterable[Piece]]]:
    for number, record in enumerate(records):
        if number == MOST_SERVICES:
            return
        yield record


def _summary_fields(diagnosis: Diagnosis) -> dict[str, str]:
    root = diagnosis.root
    units = [one.unit.service or one.unit.name for one in diagnosis.failed_units]
    return {
        "verdict": diagnosis.verdict.value,
        "reason": verdict_sentence(diagnosis).removeprefix(f"{diagnosis.verdict}: ")[:_LONGEST],
        "why": "" if root is None else cause_sentence(root)[:_LONGEST],
        "service": (root.service if root is not None else (units or [""])[0])[:_LONGEST_NAME],
        "stage": "" if root is None else (root.stage or "")[:_LONGEST],
    }


def _counted(service: str, record: Iterable[Piece], counts: dict[str, int]) -> Iterator[Piece]:
    counts[service] = 0
    for piece in record:
        counts[service] += isinstance(piece, Entry)
        yield piece


def _service_fields(service: ServiceHistory, counts: Mapping[str, int]) -> ServiceSeen:
    latest = service.attempts[-1] if service.runs else None
    return ServiceSeen(
        service=service.name[:_LONGEST_NAME],
        entries=counts[service.name],
        malformed=service.damaged_pieces,
        outcome="" if latest is None else latest.outcome.value,
        stage="" if latest is None else (latest.in_stage or "")[:_LONGEST],
    )
