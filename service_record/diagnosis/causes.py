"""Find the cause of a failure: test all rules against the evidence and choose one match. Pure.

Matches are sorted by rank (see `_RANKS`), then by the proximity of their evidence (last lines of the service,
other lines of the run, facts, other sources), then by the order of the rules, deepest first. A rule may name
other rules that it explains (`over`).

The second half of this module reads a host's files and adds their evidence to a diagnosis.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pkgutil import get_data
from typing import TYPE_CHECKING, Final, TypeAlias
from zlib import crc32

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.cause_rules import CauseRule, Rank
from service_record.diagnosis.derived_history import has_records, is_derived
from service_record.diagnosis.evidence.log_lines import SYSTEMD, Era, LogLine, is_own_line
from service_record.diagnosis.findings import Diagnosis, FailedUnit, HostCause, QuotedLine, Trouble, Verdict
from service_record.diagnosis.fitting import CauseMatcher, Match, RuleBook, is_between
from service_record.diagnosis.judged_host import JudgedHost
from service_record.diagnosis.pointing import LEAST_POINTER, likely_cause, lines_to_show
from service_record.diagnosis.stands_out import MOST_SHOWN, FailureContext, StandingOut, rank_lines
from service_record.diagnosis.trouble_facts import (
    NO_EVIDENCE,
    Evidence,
    KnownCause,
    LineWeight,
    TroubleFacts,
    Weighed,
    telling_line,
    weigh_lines,
    weight,
)
from service_record.diagnosis.units import Unit
from service_record.history import History
from service_record.history.outcome import NOTHING, Outcome, Run
from service_record.record.directory import OWN_REPORTS

if TYPE_CHECKING:
    from datetime import datetime

    from service_record.diagnosis.evidence.scan import Scanner

FAMILIES: Final = (
    *("hardware", "system", "network", "installing", "packages", "images", "cluster", "facts"),
    *("ends", "symptoms"),
)
"""The files of the built-in rules, ordered from deep causes to symptoms."""


class Fit(msgspec.Struct, frozen=True):
    """A rule that fits, and its evidence."""

    order: int
    """The position among all rules. A lower one is a deeper cause."""
    rule: CauseRule
    match: Match


class Causes:
    """The rules of known causes, deepest first, and the evidence of one host."""

    def __init__(
        self,
        rules: Iterable[CauseRule],
        evidence: Evidence = NO_EVIDENCE,
        history: History | None = None,
        known_lines: frozenset[str] = frozenset(),
    ) -> None:
        self.rules = tuple(rules)
        self.known_lines = known_lines
        """Templates of error lines that a healthy host logged: they do not stand out."""
        self.evidence = evidence
        self.history = history or History(())
        self.log: dict[str, tuple[Weighed, ...]] = {}
        """Service -> the rules that matched, for `--explain`. The key for the host itself is "" (empty)."""
        self.doubtful: dict[str, tuple[KnownCause, ...]] = {}
        """Service -> likely causes that are not proven, best first."""
        self._keeps_log = history is not None  # without a host, many hosts share this object

    def with_evidence(self, evidence: Evidence, history: History) -> "Causes":
        """Return the same rules, compiled patterns included, for the evidence of another host."""
        causes = Causes(self.rules, evidence, history, self.known_lines)
        causes.__dict__.update(book=self.book)
        return causes

    def without_evidence(self, history: History) -> "Causes":
        """Return the same rules for another host that has only records."""
        return self.with_evidence(NO_EVIDENCE, history)

    @cached_property
    def host(self) -> JudgedHost:
        """Return the roles, programs and check findings of the host."""
        return JudgedHost(self.evidence, self.history)

    @cached_property
    def book(self) -> RuleBook:
        """Return the rules with their indexes."""
        return RuleBook.from_rules(self.rules)

    def prepare(self) -> None:
        """Compile the patterns before worker processes are forked, so that they share the memory."""
        self.book.patterns.prepare()

    def explain(self, trouble: TroubleFacts) -> KnownCause | None:
        """Return the cause or, without one, the best match of a lower rank; None if no rule fits."""
        cause, weighed, doubtful = _choose_cause(self, trouble)
        if self._keeps_log:
            self.log[trouble.service] = weighed
            self.doubtful[trouble.service] = doubtful
        return cause

    def explain_host(self) -> KnownCause | None:
        """Return a cause that blocks this host although no service has failed."""
        if self.evidence is NO_EVIDENCE:
            return None
        cause, self.log[""], self.doubtful[""] = _choose_cause(self, None)
        return cause


def _applies_without_failure(rule: CauseRule) -> bool:
    """Return True if a rule can name the cause on a host where no service has failed.

    A line proves the cause there only in a source that the rule names; elsewhere the match has a doubt.
    """
    needs_trouble = any(one.texts or one.words for one in (rule.condition, *rule.needs))
    is_of_facts = rule.rank is Rank.SYMPTOM and rule.condition.check is not None
    return not needs_trouble and (rule.rank is Rank.CAUSE or is_of_facts)


def evidence_only_in(bad: Causes, good: Causes) -> tuple[KnownCause, ...]:
    """Return the causes that rules find in the files of a bad host but not in those of a good one."""
    names = {cause.name for cause in _find_evident(good)}
    return tuple(cause for cause in _find_evident(bad) if cause.name not in names)


def _find_evident(causes: Causes) -> Iterator[KnownCause]:
    """Yield the causes and contributing causes in the files of a host, whatever its services did."""
    matcher = CauseMatcher(causes.book, causes.evidence, causes.host, None)
    for rule in map(causes.rules.__getitem__, matcher.candidates()):
        if rule.rank in {Rank.CAUSE, Rank.CONTRIBUTING} and not rule.condition.is_of_trouble:
            match, lost = matcher.fit(rule)
            if match is not None and lost is None and match.doubt is None and match.place is not None:
                yield matcher.cause(rule, match)


def _choose_cause(
    causes: Causes, trouble: TroubleFacts | None
) -> tuple[KnownCause | None, tuple[Weighed, ...], tuple[KnownCause, ...]]:
    """Return the chosen cause, all rules that matched, and the causes that the evidence does not prove."""
    matcher = CauseMatcher(causes.book, causes.evidence, causes.host, trouble)
    fits: list[Fit] = []
    weighed: list[Weighed] = []
    for order in matcher.candidates():
        rule = causes.rules[order]
        if trouble is None and not _applies_without_failure(rule):
            continue
        match, lost = matcher.fit(rule)
        if match is None:
            continue
        if lost is None:
            fits.append(Fit(order, rule, match))
        else:
            weighed.append(_weigh(rule, match, lost))
    if matcher.unexplained_error(fit.match for fit in fits) is not None:
        # The service logged an error that no rule matches. It may be the real cause, so no other is certain.
        doubt = "the service itself logged another error"
        fits = [replace(fit, match=replace(fit.match, doubt=fit.match.doubt or doubt)) for fit in fits]
    ranked = sorted(fits, key=_sort_key)
    doubtful = [fit for fit in ranked if fit.rule.rank is Rank.CAUSE and fit.match.doubt is not None]
    pointers = tuple(
        matcher.cause(fit.rule, fit.match)
        for fit in doubtful
        if not any(fit.rule.name in one.rule.over and one.rule.name not in fit.rule.over for one in doubtful)
    )
    weighed += [_weigh(fit.rule, fit.match, fit.match.doubt) for fit in doubtful]
    ranked = [fit for fit in ranked if fit not in doubtful]
    if not ranked:
        return None, tuple(weighed), pointers
    chosen = _choose_deepest(ranked)
    weighed += [
        _weigh(fit.rule, fit.match, _explain_loss(fit, chosen)) for fit in ranked if fit is not chosen
    ]
    named = _weigh(chosen.rule, chosen.match, None)
    return matcher.cause(chosen.rule, chosen.match), (named, *weighed), pointers


def _choose_deepest(ranked: Sequence[Fit]) -> Fit:
    """Return the best fit, or the fit at the end of the chain of rules that explain it (`over`).

    Rules may name each other: the search stops at a rule that was already seen.
    """
    chosen, names = ranked[0], {ranked[0].rule.name}
    while True:
        by = next((fit for fit in ranked if chosen.rule.name in fit.rule.over), None)
        if by is None or by.rule.name in names:
            return chosen
        chosen = by
        names.add(by.rule.name)


def _weigh(rule: CauseRule, match: Match, lost: str | None) -> Weighed:
    return Weighed(
        rule=rule.name,
        rank=str(rule.rank),
        line=match.line,
        place=str(match.place) if match.place is not None else None,
        lost=lost,
    )


_RANKS: Final = {Rank.CAUSE: 0, Rank.POINTER: 1, Rank.CONTRIBUTING: 2, Rank.FORM: 3, Rank.SYMPTOM: 4}
"""Lower comes first. How a process ended (its form of death) says more than a symptom."""


def _sort_key(fit: Fit) -> tuple[object, ...]:
    return _RANKS[fit.rule.rank], fit.match.proximity, fit.order


def _explain_loss(fit: Fit, winner: Fit) -> str:
    """Return why a fit was not chosen, for `--explain`."""
    name = winner.rule.name
    if fit.rule.name in winner.rule.over:
        return f"{name} accounts for it"
    if fit.rule.rank is not winner.rule.rank:
        return f"a {fit.rule.rank}, and {name} is a {winner.rule.rank}"
    if fit.match.proximity < winner.match.proximity:
        return f"{name} accounts for what lies deeper"
    if fit.match.proximity > winner.match.proximity:
        return f"{name} is nearer to the failure"
    return f"{name} lies deeper"


PARSED: Final = "rules/parsed.json"
"""The output of `parse_rules`; wheels contain it. Reading it takes 7 ms, reading the YAML files 400 ms."""
_MADE_FROM: Final = (
    *(f"rules/{family}.yaml" for family in FAMILIES),
    *("cause_rules.py", "line_patterns.py", "yaml_files.py"),
)


class _ParsedRules(msgspec.Struct):
    sums: dict[str, int]
    """CRC-32 of each file that the rules were made from."""
    rules: tuple[CauseRule, ...]


@cache
def built_in_rules() -> tuple[CauseRule, ...]:
    """Return the built-in rules, deepest first."""
    return read_parsed_rules() or _read_yaml_rules()


def read_parsed_rules() -> tuple[CauseRule, ...] | None:
    """Return the rules in PARSED; None if the file is missing or damaged, or its sources have changed."""
    try:
        parsed = msgspec.json.decode(_read_data(PARSED), type=_ParsedRules)
    except (OSError, msgspec.DecodeError):
        return None
    return parsed.rules if _source_sums().items() <= parsed.sums.items() else None


def parse_rules() -> bytes:
    """Return the built-in rules as one line of JSON, with the checksums of their sources."""
    rules = _ParsedRules(_source_sums(), _read_yaml_rules())
    return msgspec.json.encode(rules, order="deterministic") + b"\n"


def _read_yaml_rules() -> tuple[CauseRule, ...]:
    from service_record.diagnosis.yaml_files import read_rules  # a slow import that PARSED makes unnecessary

    return tuple(
        rule
        for family in FAMILIES
        for rule in read_rules(_read_data(f"rules/{family}.yaml").decode(), f"{family}.yaml")
    )


def _source_sums() -> dict[str, int]:
    """Return the checksum of each source that is there: an executable has no Python files."""
    sums = {}
    for name in _MADE_FROM:
        with suppress(OSError):
            sums[name] = crc32(_read_data(name))
    return sums


def _read_data(name: str) -> bytes:
    data = get_data("service_record.diagnosis", name)
    assert data is not None, name  # noqa: S101  # only a namespace package has no data
    return data


@cache
def built_in_causes() -> Causes:
    """Return the built-in rules without evidence."""
    return Causes(built_in_rules())


HostFiles: TypeAlias = Iterable[tuple[str, Callable[[int], bytes]]]
"""The path of each file of a host, with a function that reads it. Call it before you take the next file."""
"""The file in our bundles with the diagnosis that was made with the bundle."""
_LATEST_RUNS: Final = 3
"""The number of runs whose pids identify the lines of a service in a journal."""


def make_scanner(
    causes: Causes, history: History, failed_services: frozenset[str] = frozenset()
) -> "Scanner":
    """Return a scanner for the files of the host with this history."""
    from service_record.diagnosis.evidence.scan import Scanner  # needed only if there are such files

    own = {
        service.name: [run.pid for run in service.runs[-_LATEST_RUNS:] if run.pid is not None]
        for service in history.services
        # A journal has lines of a hundred units: keep those of services with records, and of failed units.
        if not is_derived(service) or service.outcome is None or service.outcome.is_bad
    }
    return Scanner(
        causes.book.patterns, {**{name: [] for name in failed_services}, **own}, _record_times(history)
    )


def read_evidence(
    causes: Causes, history: History, units: Iterable[Unit], files: HostFiles, named: Iterable[str] = ()
) -> Causes:
    """Read the files of a host and return the rules with that evidence.

    Own lines are kept for services with records, services whose units failed, and the `named` services.
    """
    scanner = make_scanner(causes, history, failed_services(units).union(named))
    for path, read in files:
        if re.search(OWN_REPORTS, path) is None:  # an earlier diagnosis is no evidence for this one
            scanner.read(path, read)
    return causes.with_evidence(scanner.evidence(), history)


def failed_services(units: Iterable[Unit]) -> frozenset[str]:
    """Return the labels of the failed units. Some of them may have no record."""
    return frozenset(unit.label for unit in units if unit.is_failed)


def _record_times(history: History) -> Era:
    """Return the earliest and the latest time in the records of a host."""
    times: list[datetime] = []
    for service in history.services:
        for run in service.runs:
            times += [time for time in (run.first_entry, run.last_entry) if time is not None]
    return Era(min(times, default=None), max(times, default=None))


def judge_evidence(diagnosis: Diagnosis | None, causes: Causes) -> Diagnosis | None:
    """Add the evidence to a diagnosis. Without records, judge the host by its files alone.

    Returns None if there is nothing to judge: records without a run, or files without lines and facts.
    """
    if diagnosis is None and (has_records(causes.history) or not causes.evidence.is_of_host):
        return None
    verdict = Verdict.SUCCEEDED if causes.evidence.has_systemd else Verdict.UNKNOWN
    return _add_evidence(diagnosis or Diagnosis(verdict=verdict, has_no_records=True), causes)


def _add_evidence(diagnosis: Diagnosis, causes: Causes) -> Diagnosis:
    """Add telling lines, likely causes and the lines that stand out.

    If no service is in trouble, look for a cause in the evidence alone: the host may be running but blocked.
    """
    failures = _failure_contexts(diagnosis, causes.evidence)
    ranked = rank_lines(causes.evidence.notable, failures, causes.known_lines)
    root = diagnosis.root and add_likely_cause(_add_telling(diagnosis.root, causes), causes, ranked)
    diagnosis = replace(
        diagnosis,
        failed_units=tuple(add_likely_cause_to_unit(failed, causes) for failed in diagnosis.failed_units),
    )
    host = None if root is not None else _find_host_cause(diagnosis, causes, ranked)
    name = causes.evidence.facts.first("hostname")
    named = root.cause if root is not None else host.cause if host is not None else None
    stands_out = [
        QuotedLine(one.text, str(one.line.place), one.line.name, one.count)
        for one in lines_to_show(
            ranked,
            named,
            root.telling if root is not None else None,
            explained=_find_explained(diagnosis),
            has_failed=bool(failures),
            is_fragment=_is_fragment(diagnosis, causes),
        )
    ]
    if root is not None and named is None and not stands_out:  # a line that a rule knows is worth reading
        doubtful = causes.doubtful.get(root.service, ())[:MOST_SHOWN]
        stands_out = [QuotedLine(one.line, one.place or "", one.of or "") for one in doubtful if one.line]
    return replace(
        diagnosis,
        stands_out=tuple(stands_out),
        host_name=name.value if name is not None else None,
        root=root,
        followers=tuple(_add_telling(trouble, causes) for trouble in diagnosis.followers),
        others=tuple(_add_telling(trouble, causes) for trouble in diagnosis.others),
        host=host,
        looked=causes.evidence.looked,
        weighed=dict(causes.log),
    )


def _find_host_cause(diagnosis: Diagnosis, causes: Causes, ranked: Sequence[StandingOut]) -> HostCause | None:
    """Return the cause to show if no trouble is the root.

    The order: a certain cause of a failed unit, of a unit that did not start, of the host, and then a likely
    cause of a failed unit, or of the problem in a fragment of a log.
    """
    of_units = {
        is_certain: next(
            (
                HostCause(service=one.unit.label, cause=one.cause)
                for one in diagnosis.failed_units
                if one.cause is not None and (one.cause.is_cause if is_certain else one.cause.is_pointer)
            ),
            None,
        )
        for is_certain in (True, False)
    }
    if of_units[True] is not None:
        return of_units[True]
    for fault in (one for one in diagnosis.not_started if one.is_fault):
        cause = causes.explain(
            TroubleFacts(kinds=frozenset({str(Verdict.FAILED)}), service=fault.service, facts=NOTHING)
        )
        if cause is not None and cause.is_cause:
            return HostCause(service=fault.service, cause=cause)
    cause = causes.explain_host()
    if cause is not None:
        return HostCause(service=cause.of or "host", cause=cause)
    if of_units[False] is not None or not _is_fragment(diagnosis, causes):
        return of_units[False]
    # Only a fragment of a log was given, and people choose fragments that show a problem. On a host with
    # working units, the same line would be harmless.
    cause = likely_cause("", None, None, causes.doubtful.get("", ()), ranked, is_fragment=True)
    return None if cause is None else HostCause(service=cause.of or "host", cause=cause)


def _find_explained(diagnosis: Diagnosis) -> frozenset[str]:
    """Return the lines that prove the causes of the other failures, which are shown anyway."""
    causes = [one.cause for one in diagnosis.others] + [one.cause for one in diagnosis.failed_units]
    return frozenset(cause.line for cause in causes if cause is not None and cause.line is not None)


def _is_fragment(diagnosis: Diagnosis, causes: Causes) -> bool:
    """Return True if only logs were given that do not show which services of the host failed."""
    services = causes.history.services
    has_succeeded = bool(services) and all(one.outcome is Outcome.SUCCESS for one in services)
    has_units = causes.evidence.has_systemd or has_succeeded or diagnosis.failed_units
    return diagnosis.has_no_records and not has_units


def _failure_contexts(diagnosis: Diagnosis, evidence: Evidence) -> list[FailureContext]:
    """Return the services in trouble and the failed units, with the times of their runs."""
    troubles = [one for one in (diagnosis.root, *diagnosis.others) if one is not None]
    failures = [
        FailureContext(one.service, one.run.started or one.run.first_entry, one.run.ended) for one in troubles
    ]
    failures += [FailureContext(one.unit.label, None, one.unit.since) for one in diagnosis.failed_units]
    return [replace(one, meanwhile=evidence.meanwhile.get(one.service, ())) for one in failures]


def add_likely_cause_to_unit(failed: FailedUnit, causes: Causes) -> FailedUnit:
    """Return a failed unit with its most telling line, and the likely cause if no rule is certain."""
    service = failed.unit.label
    if failed.cause is not None and failed.cause.is_cause:
        return failed
    lines = causes.evidence.own.get(service, ())
    telling = _find_telling([line for line in lines if line.kind != SYSTEMD])
    failure = FailureContext(service, None, failed.unit.since, causes.evidence.meanwhile.get(service, ()))
    ranked = rank_lines(causes.evidence.notable, [failure], causes.known_lines)
    cause = likely_cause(service, telling, failed.cause, causes.doubtful.get(service, ()), ranked)
    if telling is None and cause is not None and cause.is_pointer:
        own = next(
            (one for one in ranked if is_own_line(one.line, service) and one.score >= LEAST_POINTER), None
        )
        telling = None if own is None else QuotedLine(own.text, str(own.line.place))
    return replace(failed, telling=telling or failed.telling, cause=cause or failed.cause)


def add_likely_cause(trouble: Trouble, causes: Causes, ranked: Sequence[StandingOut]) -> Trouble:
    """Add the likely cause to a trouble that no rule explains with certainty."""
    if trouble.cause is not None and (trouble.cause.is_cause or trouble.cause.is_pointer):
        return trouble
    telling = trouble.telling
    if telling is None and (line := telling_line(trouble.facts.message)) is not None:
        telling = QuotedLine(line, "")
    doubtful = causes.doubtful.get(trouble.service, ())
    cause = likely_cause(trouble.service, telling, trouble.cause, doubtful, ranked)
    return trouble if cause is None else replace(trouble, cause=cause)


def _find_telling(lines: Sequence[LogLine], beyond: LineWeight = LineWeight.PLAIN) -> QuotedLine | None:
    """Return the line with the highest weight, if its weight is above `beyond`."""
    weighed = zip(weigh_lines(line.text.strip() for line in lines), lines, strict=True)
    latest_first = list(weighed)[::-1]
    if not latest_first:
        return None
    (found, text), line = max(latest_first, key=lambda one: one[0][0])
    return QuotedLine(text, str(line.place)) if found > beyond else None


def _add_telling(trouble: Trouble, causes: Causes) -> Trouble:
    """Add the number of dropped messages and, if the record has no error line, a telling line of the log."""
    log = causes.evidence.unit_logs.get(f"{trouble.service}.service")
    if log is not None and log.suppressed:
        trouble = replace(trouble, suppressed=log.suppressed)
    message_line = telling_line(trouble.facts.message)
    message_weight = LineWeight.PLAIN if message_line is None else max(LineWeight.PLAIN, weight(message_line))
    if message_weight >= LineWeight.ERROR:
        return trouble
    lines = [line for line in causes.evidence.own.get(trouble.service, ()) if _is_of_run(line, trouble.run)]
    telling = _find_telling(lines, message_weight)
    return trouble if telling is None else replace(trouble, telling=telling)


def _is_of_run(line: LogLine, run: Run) -> bool:
    if line.kind == SYSTEMD or line.time is None:
        return False
    return is_between(line.time, run.started or run.first_entry, run.ended)
