"""Judge a host's records as `analyze` does, and summarize the result for the database. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.diagnosis import Diagnosis
from service_record.diagnosis.causes import built_in_causes
from service_record.diagnosis.judgement import HostFiles, judge
from service_record.diagnosis.units import read_texts
from service_record.display.sentences import cause_sentence, verdict_sentence
from service_record.history import History, ServiceHistory
from service_record.history.build import Now, host_history, latest_entry
from service_record.history.results import Liveness
from service_record.record.entry import Entry, Piece

MOST_SERVICES: Final = 1_000
_MAX_BOOTS: Final = 64
_MAX_LEFT_OUT: Final = 32
_MAX_TEXT_CHARS: Final = 2_000
"""Maximum number of characters of a sentence: a reason, a stage, or an unreadable part."""
_MAX_NAME_CHARS: Final = 255


class ServiceSummary(msgspec.Struct, frozen=True):
    """The summary of one service's record."""

    service: str
    entries: int
    malformed: int
    """The number of damaged parts of the record."""
    outcome: str
    """The outcome of its latest attempt; empty without an attempt."""
    stage: str
    """The stage in which it is now, failed, or was interrupted; empty outside of stages."""


class RecordsSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The summary of a host's records, as the database stores it."""

    services: tuple[ServiceSummary, ...] = ()
    verdict: str = ""
    """A value of `diagnosis.Verdict`; empty if there is nothing to judge."""
    reason: str = ""
    """The explanation of the verdict. A page shows it after the verdict and a colon."""
    why: str = ""
    """The explanation of the root cause without its service and stage; empty without a root cause."""
    service: str = ""
    """The service of the root cause, or else the first failed unit; empty if nothing failed."""
    stage: str = ""
    """The stage of the root cause, or empty."""
    boots: tuple[str, ...] = ()
    """The ids of the latest boots, oldest first."""
    hardware: str = ""
    """Vendor and model of the machine, if a file of the bundle has them."""
    left_out: tuple[str, ...] = ()
    """The parts that could not be read, each with the reason."""


@dataclass(frozen=True, slots=True)
class JudgedRecords:
    """Records that were read and diagnosed, as the source of a summary and of a page."""

    history: History
    moment: Now
    """The time as of which the records were judged."""
    diagnosis: Diagnosis | None
    entries: Mapping[str, int]
    """Service -> number of entries in its record."""
    left_out: tuple[str, ...]
    """The parts that could not be read, each with the reason."""
    hardware: str = ""
    """Vendor and model of the machine."""
    node: str = ""
    """The name of the host, if the bundle has the logs of several."""
    other_hosts: tuple[tuple[str, Diagnosis], ...] = ()
    """The other hosts whose logs are in the same bundle."""


class BesideRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a bundle besides the entries of its records."""

    boot_id: str | None = None
    """The boot in which the bundle was made, from its manifest. Runs of other boots have ended."""
    written: Mapping[str, float] = msgspec.field(default_factory=dict)
    """Service -> time of the last write to its record file, in seconds since 1970."""
    unfinished: Collection[str] = ()
    """Services with a temporary file beside the record, which a write left when it did not finish."""
    damaged: Collection[str] = ()
    """Services with a copy of damaged bytes beside the record."""
    unit_texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Path -> text, for the files that list failed units."""
    files: HostFiles = ()
    """All other files of the bundle."""
    is_log_bundle: bool = False
    """True for a log bundle that OpenShift's `gather` made of a bootstrap host."""


def judge_records(
    records: Iterable[tuple[str, Iterable[Piece]]],
    left_out: Iterable[str] = (),
    silence: float | None = None,
    beside: BesideRecords | None = None,
) -> JudgedRecords:
    """Read records and judge them as of their latest entry, or `silence` seconds later.

    `records`: the name of each service and the pieces of its record; only the first 1,000 services are read.
    `left_out`: parts that could not be read, each with the reason. `beside`: the other contents of a bundle.
    Records that a host streams have no bundle (None); a run without an end then counts as running.
    """
    counts: dict[str, int] = {}
    beside = beside or BesideRecords()
    history = host_history(
        ((service, _count_entries(service, record, counts)) for service, record in _limit_services(records)),
        Liveness(beside.boot_id, is_at_home=beside.boot_id is not None),
        written=beside.written,
        unfinished=beside.unfinished,
        damaged=beside.damaged,
    )
    moment, units = _judging_time(history, silence), read_texts(beside.unit_texts)
    judgement = judge(
        history,
        built_in_causes(),
        units,
        files=beside.files,
        now=moment,
        is_log_bundle=beside.is_log_bundle,
    )
    hardware = " ".join(fact.value for fact in judgement.facts.all("hardware"))[:_MAX_NAME_CHARS]
    reasons = tuple(text[:_MAX_TEXT_CHARS] for text in left_out)[:_MAX_LEFT_OUT]
    return JudgedRecords(history, moment, judgement.diagnosis, counts, reasons, hardware)


def summarise(judged: JudgedRecords) -> RecordsSummary:
    """Return the summary of judged records, with texts cut to the limits above."""
    diagnosis = judged.diagnosis
    return RecordsSummary(
        services=tuple(_service_fields(service, judged.entries) for service in judged.history.services),
        boots=judged.history.boots[-_MAX_BOOTS:],
        hardware=judged.hardware,
        left_out=judged.left_out,
        **(_summary_fields(diagnosis) if diagnosis is not None else {}),
    )


def _judging_time(history: History, silence: float | None) -> Now:
    """Return the time as of which records are judged: their latest entry, or `silence` seconds later."""
    latest = latest_entry(history)
    if silence is None:
        return latest
    uptime = None if latest.uptime is None else latest.uptime + silence
    return replace(
        latest, time=latest.time + timedelta(seconds=silence), uptime=uptime, is_latest_entry=False
    )


def _limit_services(records: Iterable[tuple[str, Iterable[Piece]]]) -> Iterator[tuple[str, Iterable[Piece]]]:
    for number, record in enumerate(records):
        if number == MOST_SERVICES:
            return
        yield record


def _summary_fields(diagnosis: Diagnosis) -> dict[str, str]:
    root = diagnosis.root
    units = [one.unit.service or one.unit.name for one in diagnosis.failed_units]
    return {
        "verdict": diagnosis.verdict.value,
        "reason": verdict_sentence(diagnosis).removeprefix(f"{diagnosis.verdict}: ")[:_MAX_TEXT_CHARS],
        "why": "" if root is None else cause_sentence(root)[:_MAX_TEXT_CHARS],
        "service": (root.service if root is not None else (units or [""])[0])[:_MAX_NAME_CHARS],
        "stage": "" if root is None else (root.stage or "")[:_MAX_TEXT_CHARS],
    }


def _count_entries(service: str, record: Iterable[Piece], counts: dict[str, int]) -> Iterator[Piece]:
    """Yield the pieces of a record, and count its entries in `counts`.

    Records are iterators that are read only once, so the entries are counted on the way.
    """
    counts[service] = 0
    for piece in record:
        counts[service] += isinstance(piece, Entry)
        yield piece


def _service_fields(service: ServiceHistory, counts: Mapping[str, int]) -> ServiceSummary:
    latest = service.attempts[-1] if service.runs else None
    return ServiceSummary(
        service=service.name[:_MAX_NAME_CHARS],
        entries=counts[service.name],
        malformed=service.damaged_pieces,
        outcome="" if latest is None else latest.outcome.value,
        stage="" if latest is None else (latest.in_stage or "")[:_MAX_TEXT_CHARS],
    )
