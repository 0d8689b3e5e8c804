"""The row of one host's bundle. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service_record.diagnosis import Diagnosis, Verdict
from service_record.diagnosis.evidence.error_lines import telling_line
from service_record.diagnosis.evidence.fact_checks import ROLES, find_roles
from service_record.diagnosis.evidence.facts import KnownFacts
from service_record.diagnosis.failures import signature
from service_record.diagnosis.findings import FailedUnit, KnownCause, Trouble
from service_record.display.sentences import verdict_sentence
from service_record.history import History

UNREADABLE: Final = "unreadable"
"""The verdict of a bundle that could not be judged: nothing was read, or too little to rule out trouble."""
TROUBLE: Final = frozenset(verdict.value for verdict in Verdict if verdict.is_bad)
"""The verdicts of a host in trouble."""
_MAX_LINE: Final = 500
_MAX_STAGES: Final = 200
_CLUSTER_MEMBER: Final = re.compile(
    r"(?:.*/)?(?P<cluster>[^/]+?)_(?P<role>bootstrap|master|worker|arbiter|auto-assign)_(?P<host>[^/]+?)\.tar(?:\.\w+)?"
)
"""The name that assisted-service gives a host's archive within the archive of its cluster."""


class Reference(msgspec.Struct, frozen=True):
    """The place of a bundle, with values that change when the bundle changes."""

    uri: str
    """The displayed place. Bytes of a file name that are not UTF-8 are escaped."""
    size: int = 0
    changed: float = 0.0
    """Seconds since 1970; 0 if unknown."""
    version: str = ""
    """A fingerprint of the files of a directory, or the number of a collector's bundle."""
    path: bytes = b""
    """The file or directory on this machine, byte for byte; empty for places elsewhere."""

    @property
    def key(self) -> str:
        """Name this version of the bundle, the same in each run."""
        return f"{self.uri}@{self.size}@{self.changed:.3f}{self.version and '@'}{self.version}"


class BundleRow(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one host's bundle. Unknown texts are empty; times are seconds since 1970."""

    key: str
    """The key of the reference: the bundle's place and version."""
    uri: str
    member: str = ""
    """The host's archive within an archive of a whole cluster; empty for a bundle of one host."""
    digest: str = ""
    """Identifies the content of the bundle's files, however they are packed and named."""
    host: str = ""
    cluster: str = ""
    release: str = ""
    role: str = ""
    platform: str = ""
    hardware: str = ""
    boots: int = 0
    verdict: str = UNREADABLE
    says: str = ""
    """The headline of `analyze`."""
    cause: str = ""
    cause_says: str = ""
    rank: str = ""
    """The rank of the rule: `cause`, `contributing`, `symptom` or `form of death`; empty if no rule fits."""
    signature: str = ""
    """The telling line without parts that differ each time, such as numbers."""
    line: str = ""
    """The telling line."""
    service: str = ""
    stage: str = ""
    since: float | None = None
    """The time at which the trouble began."""
    latest: float | None = None
    """The time of the last entry by the host's clock; without a record, when the file was written."""
    stages: dict[str, float] = {}
    """`service/stage` -> the seconds of its longest execution."""
    left_out: str = ""
    """The parts that could not be read, with the reason."""
    judged: float = 0.0
    """The time of the judgement."""
    version: str = ""
    """The program that judged it."""


def make_row(
    diagnosis: Diagnosis | None, history: History, reference: Reference, facts: Mapping[str, Any]
) -> BundleRow:
    """Return the row of a host: its verdict, root cause and telling line, with the columns `facts`."""
    latest = max(
        (run.last_entry for service in history.services for run in service.runs if run.last_entry),
        default=None,
    )
    row = BundleRow(
        key=reference.key,
        uri=reference.uri,
        boots=len(history.boots),
        latest=reference.changed or None if latest is None else latest.timestamp(),
        stages=_find_longest_stages(history),
        **facts,
    )
    if diagnosis is None:
        return row
    return msgspec.structs.replace(
        row,
        verdict=diagnosis.verdict.value,
        says=verdict_sentence(diagnosis),
        **_make_root_columns(diagnosis),
    )


_PLATFORM: Final = re.compile(r"\bignition\.platform\.id=(\S+)")


def make_host_columns(facts: KnownFacts, history: History) -> dict[str, str]:
    """Return the columns that describe the host: its name, release, role, platform and hardware."""
    roles = find_roles(facts, history)
    names = {fact.of: fact.value for fact in facts.all("os")}
    platform = _PLATFORM.search(" ".join(fact.value for fact in facts.all("cmdline")))
    name = facts.first("hostname")
    return {
        "host": "" if name is None else name.value,
        "release": " ".join(filter(None, (names.get("ID"), names.get("VERSION_ID")))),
        "role": next((role for role in ROLES if role in roles), ""),
        "platform": "" if platform is None else platform[1],
        "hardware": " ".join(fact.value for fact in facts.all("hardware")),
    }


def add_cluster_columns(row: BundleRow, member: str) -> BundleRow:
    """Return the row of one host's archive within the archive of its cluster."""
    named = _CLUSTER_MEMBER.fullmatch(member)
    facts = {} if named is None else named.groupdict()
    if row.host:
        facts.pop("host", None)
    return msgspec.structs.replace(row, member=member, **facts)


def is_cluster_member(name: str) -> bool:
    """Return whether a member of an archive is a host's archive, as assisted-service names it."""
    return _CLUSTER_MEMBER.fullmatch(name) is not None


def find_cluster_member(path: str) -> str:
    """Return the member of a cluster's archive in which a file is; empty if it is in no host's archive."""
    parts = path.split("/")
    return next(("/".join(parts[:n]) for n, part in enumerate(parts[:-1], 1) if is_cluster_member(part)), "")


def make_unreadable_row(reference: Reference, reason: str) -> BundleRow:
    """Return the row of a bundle that could not be judged, with the reason."""
    return BundleRow(
        key=reference.key, uri=reference.uri, left_out=reason[:_MAX_LINE], latest=reference.changed or None
    )


def _make_root_columns(diagnosis: Diagnosis) -> dict[str, object]:
    """Return the columns that the root cause fills; without one, those of what stands out most."""
    if diagnosis.root is not None:
        return _make_trouble_columns(diagnosis.root)
    if diagnosis.host is not None:
        cause = diagnosis.host.cause
        return {
            "service": diagnosis.host.service,
            **_make_cause_columns(cause),
            **_make_line_columns(cause.line or cause.says),
        }
    if diagnosis.failed_units:
        return _make_unit_columns(diagnosis.failed_units[0])
    return _make_line_columns(diagnosis.stands_out[0].line) if diagnosis.stands_out else {}


def _make_trouble_columns(trouble: Trouble) -> dict[str, object]:
    line = (trouble.cause and trouble.cause.line) or (trouble.telling and trouble.telling.line)
    line = line or telling_line(trouble.facts.message) or ""
    since = trouble.since
    return {
        "service": trouble.service,
        "stage": trouble.stage or "",
        "since": None if since is None else since.timestamp(),
        **_make_cause_columns(trouble.cause),
        **_make_line_columns(line or _describe_without_line(trouble)),
    }


def _describe_without_line(trouble: Trouble) -> str:
    """Return a text in place of a telling line, for a service that logged nothing."""
    if trouble.kind is Verdict.STUCK:
        return f"stuck in stage {trouble.stage}" if trouble.stage else "stuck"
    facts = trouble.facts
    return f"exit {facts.exit_code}" if facts.exit_code is not None else facts.service_result or ""


def _make_unit_columns(failed: FailedUnit) -> dict[str, object]:
    cause = failed.cause
    line = (cause and cause.line) or f"{failed.unit.name} failed"
    return {"service": failed.unit.service, **_make_cause_columns(cause), **_make_line_columns(line)}


def _make_cause_columns(cause: KnownCause | None) -> dict[str, object]:
    if cause is None or not cause.is_of_rule:
        return {}
    return {"cause": cause.name, "cause_says": cause.says, "rank": cause.rank}


def _make_line_columns(line: str) -> dict[str, object]:
    return {"line": line[:_MAX_LINE], "signature": signature(line)[:_MAX_LINE]}


def _find_longest_stages(history: History) -> dict[str, float]:
    longest: dict[str, float] = {}
    for service in history.services:
        for run in service.runs:
            for stage in run.stages:
                name = f"{service.name}/{stage.name}"
                if stage.duration is not None and (name in longest or len(longest) < _MAX_STAGES):
                    longest[name] = max(stage.duration, longest.get(name, 0.0))
    return longest
