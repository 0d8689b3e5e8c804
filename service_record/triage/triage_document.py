"""The answer of `triage` as a document for programs; times are RFC 3339 in UTC, to the second. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from service_record.display.machine import ProgramDocument, format_csv
from service_record.display.show_document import VERSION, Count, Time
from service_record.triage.counting import Cause, Triage

Fraction: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


class CountedCauseDocument(ProgramDocument, frozen=True, kw_only=True):
    """A cause, or a pattern of telling lines that no rule knows."""

    says: str
    """The cause in a few words, or the pattern of the lines."""
    rank: str
    """cause, points to (likely), contributing, symptom or form of death; empty if no rule fits."""
    bundles: Count
    """Bundles with this cause."""
    hosts: Count
    """Hosts with this cause."""
    share: Fraction
    """The share of all judged bundles."""
    first: Time | None
    """When it was first seen, by the clocks that are not wrong."""
    last: Time | None
    """When it was last seen."""
    releases: tuple[str, ...]
    """At most five operating systems of its hosts."""
    platforms: tuple[str, ...]
    """At most five platforms of its hosts."""
    services: tuple[str, ...]
    """At most five services that failed."""
    example: str
    """The latest bundle with this cause."""
    line: str
    """The telling line of that bundle."""
    before: Count
    """Hosts that had it in the bundles of the comparison."""
    now: Count
    """Hosts that have it now."""
    probability: Fraction | None
    """The probability that chance alone makes it this much more frequent; null without a comparison."""
    days: tuple[Count, ...]
    """Bundles on each day from firstDay on."""
    cause: str
    """The rule's name; empty for lines that no rule knows."""
    new: bool
    """Seen now, and never in the bundles of the comparison."""
    rising: bool
    """More frequent now; see docs/triage.md for the test."""


class LeftOutDocument(ProgramDocument, frozen=True, kw_only=True):
    """A bundle that was not judged, or only in part."""

    bundle: str
    reason: str


class WrongClockDocument(ProgramDocument, frozen=True, kw_only=True):
    """A bundle whose host had a wrong clock."""

    bundle: str
    latest: Time
    """The time that the clock showed."""


class CopyDocument(ProgramDocument, frozen=True, kw_only=True):
    """A bundle with the content of another one."""

    bundle: str
    original: str


class SkippedDocument(ProgramDocument, frozen=True, kw_only=True):
    """A file that is no evidence of a host."""

    file: str
    reason: str


class TriageHeadDocument(ProgramDocument, frozen=True, kw_only=True):
    """The first line of --output jsonl: the members of the document that are not lists."""

    version: Literal[1]
    bundles: Count
    """Bundles, copies not counted."""
    hosts: Count
    verdicts: dict[str, Count]
    """Verdict -> number of bundles."""
    since: Time | None
    """The time from which bundles are compared; null for all."""
    compared_with: str
    """The bundles of the comparison, in words; empty without any."""
    first_day: Time | None
    """The first day of `days`."""
    hosts_now: Count
    """Hosts among the bundles that are compared."""
    hosts_before: Count
    """Hosts among the bundles of the comparison."""


class TriageDocument(TriageHeadDocument, frozen=True, kw_only=True):
    causes: tuple[CountedCauseDocument, ...]
    """Causes that rules name, most frequent first."""
    unknown: tuple[CountedCauseDocument, ...]
    """Patterns of telling lines that no rule knows."""
    unexpected: tuple[CountedCauseDocument, ...]
    """Patterns of error lines on hosts that have not failed by their verdict."""
    unreadable: tuple[LeftOutDocument, ...]
    """Bundles and directories that could not be judged. If there are any, the exit code is 3."""
    incomplete: tuple[LeftOutDocument, ...]
    """Bundles that were judged without parts that could not be read."""
    wrong_clocks: tuple[WrongClockDocument, ...]
    """Bundles whose host had a wrong clock; new and rising leave them out."""
    copies: tuple[CopyDocument, ...]
    """Bundles with the content of another one; they are not counted."""
    skipped: tuple[SkippedDocument, ...]
    """Files that are no evidence of a host."""


LISTS: Final = TriageDocument.__struct_encode_fields__[len(TriageHeadDocument.__struct_fields__) :]
"""The members of the document that are lists."""


def triage_document(triage: Triage) -> TriageDocument:
    """Return the answer as docs/schemas/triage.schema.json describes it."""
    return TriageDocument(
        version=VERSION,
        bundles=triage.bundles,
        hosts=triage.hosts,
        verdicts=triage.verdicts,
        since=_format_time(triage.since),
        compared_with=triage.compared_with,
        first_day=_format_time(triage.first_day),
        hosts_now=triage.hosts_now,
        hosts_before=triage.hosts_before,
        causes=tuple(map(_make_cause, triage.causes)),
        unknown=tuple(map(_make_cause, triage.unknown)),
        unexpected=tuple(map(_make_cause, triage.unexpected)),
        unreadable=tuple(LeftOutDocument(bundle=uri, reason=why) for uri, why in triage.unreadable),
        incomplete=tuple(LeftOutDocument(bundle=uri, reason=why) for uri, why in triage.incomplete),
        wrong_clocks=tuple(WrongClockDocument(bundle=uri, latest=at) for uri, at in triage.wrong_clocks),
        copies=tuple(CopyDocument(bundle=uri, original=original) for uri, original in triage.copies),
        skipped=tuple(SkippedDocument(file=uri, reason=why) for uri, why in triage.skipped),
    )


def triage_lines(triage: Triage) -> Iterator[dict[str, Any]]:
    """Yield the members that are not lists, and then each item with the name of its `list`."""
    members: dict[str, Any] = msgspec.to_builtins(triage_document(triage))
    yield {name: value for name, value in members.items() if name not in LISTS}
    for name in LISTS:
        yield from ({"list": name, **item} for item in members[name])


def _make_cause(cause: Cause) -> CountedCauseDocument:
    return CountedCauseDocument(
        says=cause.says,
        rank=cause.rank,
        bundles=cause.bundles,
        hosts=cause.hosts,
        share=cause.share,
        first=_format_time(cause.first),
        last=_format_time(cause.last),
        releases=cause.releases,
        platforms=cause.platforms,
        services=cause.services,
        example=cause.example,
        line=cause.line,
        before=cause.before,
        now=cause.now,
        probability=cause.probability,
        days=cause.days,
        cause=cause.name,
        new=cause.is_new,
        rising=cause.is_rising,
    )


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


_COLUMNS: Final = (
    *("cause", "says", "rank", "bundles", "hosts", "share", "first", "last", "new", "rising"),
    *("now", "before", "probability", "releases", "platforms", "services", "example", "line"),
)


def format_causes(triage: Triage) -> str:
    """Return CSV with a line for each cause; lines that no rule knows are last."""
    causes = map(_make_cause, (*triage.causes, *triage.unknown))
    return format_csv(_COLUMNS, ([getattr(cause, name) for name in _COLUMNS] for cause in causes))
