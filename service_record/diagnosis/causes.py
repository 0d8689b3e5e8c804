"""Known causes: every rule is held against the evidence, and what fits is weighed. Pure.

Of what fits, a cause comes before what contributed, that before a form of death, and that before a symptom.
Of one rank, the service's own last lines come first, then its further lines, facts, and lines elsewhere; then
what stands first among the rules, which lies deepest. A rule may say which others it accounts for.

A diagnosis then has added to it what only evidence beside the records tells.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from pkgutil import get_data
from typing import TYPE_CHECKING, Final, TypeAlias
from zlib import crc32

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.cause_rules import CauseRule, Rank
from service_record.diagnosis.derived_history import has_records, is_derived
from service_record.diagnosis.evidence.log_lines import SYSTEMD, Era, LogLine, is_own_line
from service_record.diagnosis.findings import Diagnosis, FailedUnit, HostCause, ToldLine, Trouble, Verdict
from service_record.diagnosis.fitting import Match, RuleBook, Surroundings, is_between
from service_record.diagnosis.judged_host import JudgedHost
from service_record.diagnosis.line_patterns import LineSet
from service_record.diagnosis.pointing import LEAST_POINTER, likely_cause, lines_to_show
from service_record.diagnosis.stands_out import FailureContext, StandingOut, rank_lines
from service_record.diagnosis.trouble_facts import (
    NO_EVIDENCE,
    Evidence,
    KnownCause,
    LineWeight,
    TroubleFacts,
    Weighed,
    telling_line,
    weight,
)
from service_record.diagnosis.units import Unit
from service_record.history import History
from service_record.history.outcome import NOTHING, Run

if TYPE_CHECKING:
    from datetime import datetime

    from service_record.diagnosis.evidence.scan import Scanner

FAMILIES: Final = (
    *("hardware", "system", "network", "installing", "packages", "images", "cluster", "facts"),
    *("ends", "symptoms"),
)
"""Files of the built-in rules: what lies deeper comes first."""


class Fit(msgspec.Struct, frozen=True):
    order: int
    rule: CauseRule
    match: Match


class Causes:
    """Rules, those that lie deepest first, and the evidence of one host that they are held against."""

    def __init__(
        self,
        rules: Iterable[CauseRule],
        evidence: Evidence = NO_EVIDENCE,
        history: History | None = None,
        known_lines: frozenset[str] = frozenset(),
    ) -> None:
        self.rules = tuple(rules)
        self.known_lines = known_lines
        """The templates of the lines that a good host logged, too: they do not stand out."""
        self.evidence = evidence
        self.history = history or History(())
        self.log: dict[str, tuple[Weighed, ...]] = {}
        """Service -> what was weighed for it; of the host itself under no name. Of one host only."""
        self.doubtful: dict[str, tuple[KnownCause, ...]] = {}
        """Service -> the likely causes that are not proven, the nearest first."""
        self._keeps_log = history is not None

    def with_evidence(self, evidence: Evidence, history: History) -> "Causes":
        """Return the same rules for another host."""
        causes = Causes(self.rules, evidence, history, self.known_lines)
        causes.__dict__.update(book=self.book)
        if "line_set" in self.__dict__:
            causes.__dict__.update(line_set=self.line_set)
        return causes

    def without_evidence(self, history: History) -> "Causes":
        """Return the same rules for another host, of which there are only records."""
        return self.with_evidence(NO_EVIDENCE, history)

    @cached_property
    def host(self) -> JudgedHost:
        """Return what the evidence says of the host."""
        return JudgedHost(self.evidence, self.history)

    @cached_property
    def book(self) -> RuleBook:
        """Return the rules with all their patterns."""
        return RuleBook.of(self.rules)

    @cached_property
    def line_set(self) -> LineSet:
        """Return the patterns of all lines elsewhere; made when files are first read."""
        return self.book.line_set()

    def prepare(self) -> None:
        """Compile what texts are searched with, before processes are made that share it."""
        self.line_set.prepare()
        self.book.own_set.prepare()

    def explain(self, trouble: TroubleFacts) -> KnownCause | None:
        """Return the cause of a trouble, or else what is known of it; None where no rule fits."""
        cause, weighed, doubtful = _explained(self, trouble)
        if self._keeps_log:
            self.log[trouble.service] = weighed
            self.doubtful[trouble.service] = doubtful
        return cause

    def of_host(self) -> KnownCause | None:
        """Return a cause that keeps this host from getting further, although no service has failed."""
        if self.evidence is NO_EVIDENCE:
            return None
        cause, self.log[""], _ = _explained(self, None)
        return cause


def _may_be_alone(rule: CauseRule) -> bool:
    """Return True if a rule can name the cause on a host where no service has failed."""
    needs_trouble = any(one.is_of_trouble for one in (rule.condition, *rule.needs))
    is_of_facts = rule.rank is Rank.SYMPTOM and rule.condition.check is not None
    return not needs_trouble and (rule.rank is Rank.CAUSE or is_of_facts)


def evidence_only_in(bad: Causes, good: Causes) -> tuple[KnownCause, ...]:
    """Return what rules find in the files of a bad host, and not in those of a good one."""
    names = {cause.name for cause in _evident(good)}
    return tuple(cause for cause in _evident(bad) if cause.name not in names)


def _evident(causes: Causes) -> Iterator[KnownCause]:
    """Yield what causes and contributing rules find in the files of a host, whatever its services came to."""
    around = Surroundings(causes.book, causes.evidence, causes.host, None)
    for rule in map(causes.rules.__getitem__, around.candidates()):
        if rule.rank in {Rank.CAUSE, Rank.CONTRIBUTING} and not rule.condition.is_of_trouble:
            match, lost = around.fit(rule)
            if match is not None and lost is None and match.place is not None:
                yield around.cause(rule, match)


def _explained(
    causes: Causes, trouble: TroubleFacts | None
) -> tuple[KnownCause | None, tuple[Weighed, ...], tuple[KnownCause, ...]]:
    """Return the known cause, all rules that matched, and the causes that the evidence does not prove."""
    around = Surroundings(causes.book, causes.evidence, causes.host, trouble)
    fits: list[Fit] = []
    weighed: list[Weighed] = []
    for order in around.candidates():
        rule = causes.rules[order]
        if trouble is None and not _may_be_alone(rule):
            continue
        match, lost = around.fit(rule)
        if match is None:
            continue
        if lost is None:
            fits.append(Fit(order, rule, match))
        else:
            weighed.append(_weighed(rule, match, lost))
    if around.unexplained_error(fit.match for fit in fits) is not None:
        # Its own error may be another one, so that evidence from elsewhere only points to the cause.
        doubt = "the service itself logged another error"
        fits = [replace(fit, match=replace(fit.match, doubt=fit.match.doubt or doubt)) for fit in fits]
    ranked = sorted(fits, key=_standing)
    doubtful = [fit for fit in ranked if fit.rule.rank is Rank.CAUSE and fit.match.doubt is not None]
    pointers = tuple(around.cause(fit.rule, fit.match) for fit in doubtful)
    weighed += [_weighed(fit.rule, fit.match, fit.match.doubt) for fit in doubtful]
    ranked = [fit for fit in ranked if fit not in doubtful]
    if not ranked:
        return None, tuple(weighed), pointers
    chosen = _deepest(ranked)
    weighed += [_weighed(fit.rule, fit.match, _why_lost(fit, chosen)) for fit in ranked if fit is not chosen]
    named = _weighed(chosen.rule, chosen.match, None)
    return around.cause(chosen.rule, chosen.match), (named, *weighed), pointers


def _deepest(ranked: Sequence[Fit]) -> Fit:
    """Return what accounts for the best fit, and for that in turn; the best fit itself where nothing does."""
    chosen, names = ranked[0], {ranked[0].rule.name}
    while True:
        by = next((fit for fit in ranked if chosen.rule.name in fit.rule.over), None)
        if by is None or by.rule.name in names:
            return chosen
        chosen = by
        names.add(by.rule.name)


def _weighed(rule: CauseRule, match: Match, lost: str | None) -> Weighed:
    return Weighed(
        rule=rule.name,
        rank=str(rule.rank),
        line=match.line,
        place=str(match.place) if match.place is not None else None,
        lost=lost,
    )


_RANKS: Final = {Rank.CAUSE: 0, Rank.POINTER: 1, Rank.CONTRIBUTING: 2, Rank.FORM: 3, Rank.SYMPTOM: 4}
"""The order of ranks: a form of death says more than a line that only comes of something else."""


def _standing(fit: Fit) -> tuple[object, ...]:
    return _RANKS[fit.rule.rank], fit.match.nearness, fit.order


def _why_lost(fit: Fit, winner: Fit) -> str:
    name = winner.rule.name
    if fit.rule.name in winner.rule.over:
        return f"{name} accounts for it"
    if fit.rule.rank is not winner.rule.rank:
        return f"a {fit.rule.rank}, and {name} is a {winner.rule.rank}"
    if fit.match.nearness < winner.match.nearness:
        return f"{name} accounts for what lies deeper"
    if fit.match.nearness > winner.match.nearness:
        return f"{name} is nearer to the failure"
    return f"{name} lies deeper"


PARSED: Final = "rules/parsed.json"
"""The built-in rules as `parsed_rules` has them: reading so much YAML takes longer than all else."""


class _ParsedRules(msgspec.Struct):
    sums: list[int]
    """Of each file that the rules were made from."""
    rules: tuple[CauseRule, ...]


@cache
def built_in_rules() -> tuple[CauseRule, ...]:
    """Return the rules that come with the program, those that lie deepest first."""
    texts = [_data(f"rules/{family}.yaml") for family in FAMILIES]
    parsed = msgspec.json.Decoder(_ParsedRules)
    shipped = parsed.decode(_data(PARSED))
    if shipped.sums == _sums(texts):
        return shipped.rules
    return parsed.decode(parsed_rules(texts)).rules  # somebody is at work on the rules


def parsed_rules(texts: Sequence[bytes]) -> bytes:
    """Return the rules of these families as one line of JSON, with the sum of each file it was made of."""
    from service_record.diagnosis.yaml_files import read_rules  # not where they are shipped

    rules = [
        rule
        for family, text in zip(FAMILIES, texts, strict=True)
        for rule in read_rules(text.decode(), f"{family}.yaml")
    ]
    return msgspec.json.encode(_ParsedRules(_sums(texts), tuple(rules)), order="deterministic") + b"\n"


def _sums(texts: Iterable[bytes]) -> list[int]:
    return list(map(crc32, texts))


def _data(name: str) -> bytes:
    data = get_data("service_record.diagnosis", name)
    assert data is not None, name  # noqa: S101  # it is in the package
    return data


@cache
def built_in_causes() -> Causes:
    """Return the causes that come with the program, and no evidence yet."""
    return Causes(built_in_rules())


HostFiles: TypeAlias = Iterable[tuple[str, Callable[[int], bytes]]]
"""The path of each file of a host, and what reads it; one is read before the next is asked for."""
VERDICT_FILE: Final = "verdict.txt"
"""The file of a bundle of ours with what was said of the host when the bundle was made."""
_LATEST_RUNS: Final = 3


def scanner(causes: Causes, history: History, failed_services: frozenset[str] = frozenset()) -> "Scanner":
    """Return what reads the files of the host whose history this is."""
    from service_record.diagnosis.evidence.scan import Scanner  # few hosts have any beside records

    own = {
        service.name: [run.pid for run in service.runs[-_LATEST_RUNS:] if run.pid is not None]
        for service in history.services
        # A journal tells of a hundred units. Only the lines of those that failed are asked for.
        if not is_derived(service) or service.outcome is None or service.outcome.is_bad
    }
    return Scanner(causes.line_set, {**{name: [] for name in failed_services}, **own}, _era(history))


def causes_with(
    causes: Causes, history: History, units: Iterable[Unit], files: HostFiles, named: Iterable[str] = ()
) -> Causes:
    """Return the causes with the evidence in the files of a host.

    `files` are their paths, with a function that reads each. Lines are kept of the services with records, of
    those whose units failed, and of the `named` ones.
    """
    reading = scanner(causes, history, failed_services(units).union(named))
    for path, read in files:
        if path.rpartition("/")[2] != VERDICT_FILE:  # an earlier diagnosis is no evidence for this one
            reading.read(path, read)
    return causes.with_evidence(reading.evidence(), history)


def failed_services(units: Iterable[Unit]) -> frozenset[str]:
    """Return the services among the units that failed: each need have no record."""
    return frozenset(unit.service for unit in units if unit.is_failed and unit.service)


def _era(history: History) -> Era:
    """Return the times that the records of a host have."""
    times: list[datetime] = []
    for service in history.services:
        for run in service.runs:
            times += [time for time in (run.first_entry, run.last_entry) if time is not None]
    return Era(min(times, default=None), max(times, default=None))


def judge_evidence(diagnosis: Diagnosis | None, causes: Causes) -> Diagnosis | None:
    """Add the evidence to a diagnosis; judge the files of a host by themselves where there is no record.

    None where there is neither: a record without any run, or files that are of no host.
    """
    if diagnosis is None and (has_records(causes.history) or not causes.evidence.is_of_host):
        return None
    verdict = Verdict.SUCCEEDED if causes.evidence.has_systemd else Verdict.UNKNOWN
    return _with_evidence(diagnosis or Diagnosis(verdict=verdict, has_no_records=True), causes)


def _with_evidence(diagnosis: Diagnosis, causes: Causes) -> Diagnosis:
    """Return the diagnosis with the lines that tell, and with a cause that stands on evidence alone.

    That is asked for only where no service is in trouble: the host may be at work, and get no further.
    """
    failures = _failures(diagnosis)
    ranked = rank_lines(causes.evidence.notable, failures, causes.known_lines)
    root = diagnosis.root and with_pointer(_with_telling(diagnosis.root, causes), causes, ranked)
    diagnosis = replace(
        diagnosis,
        failed_units=tuple(unit_with_pointer(failed, causes) for failed in diagnosis.failed_units),
    )
    host = None if root is not None else _host_cause(diagnosis, causes)
    name = causes.evidence.facts.first("hostname")
    named = root.cause if root is not None else host.cause if host is not None else None
    return replace(
        diagnosis,
        stands_out=tuple(
            ToldLine(one.text, str(one.line.place), one.line.name, one.count)
            for one in lines_to_show(
                ranked, named, root.telling if root is not None else None, has_failed=bool(failures)
            )
        ),
        host_name=name.value if name is not None else None,
        root=root,
        followers=tuple(_with_telling(trouble, causes) for trouble in diagnosis.followers),
        others=tuple(_with_telling(trouble, causes) for trouble in diagnosis.others),
        host=host,
        looked=causes.evidence.looked,
        weighed=dict(causes.log),
    )


def _host_cause(diagnosis: Diagnosis, causes: Causes) -> HostCause | None:
    of_units = {
        is_certain: next(
            (
                HostCause(service=one.unit.service or one.unit.name, cause=one.cause)
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
    cause = causes.of_host()
    if cause is not None:
        return HostCause(service=cause.of or "host", cause=cause)
    return of_units[False]


def _failures(diagnosis: Diagnosis) -> list[FailureContext]:
    """Return the services in trouble, with the times of their runs."""
    troubles = [one for one in (diagnosis.root, *diagnosis.others) if one is not None]
    failures = [
        FailureContext(one.service, one.run.started or one.run.first_entry, one.run.ended) for one in troubles
    ]
    services = [one.unit.service or one.unit.name for one in diagnosis.failed_units]
    since = [one.unit.since for one in diagnosis.failed_units]
    return failures + [FailureContext(name, None, time) for name, time in zip(services, since, strict=True)]


def unit_with_pointer(failed: FailedUnit, causes: Causes) -> FailedUnit:
    """Return a failed unit with its most telling line, and the likely cause if no rule is certain."""
    service = failed.unit.service
    if service is None or (failed.cause is not None and failed.cause.is_cause):
        return failed
    telling = _telling([line for line in causes.evidence.own.get(service, ()) if line.kind != SYSTEMD])
    failure = FailureContext(service, None, failed.unit.since)
    ranked = rank_lines(causes.evidence.notable, [failure], causes.known_lines)
    cause = likely_cause(service, telling, failed.cause, causes.doubtful.get(service, ()), ranked)
    if telling is None and cause.is_pointer if cause is not None else False:
        own = next(
            (one for one in ranked if is_own_line(one.line, service) and one.score >= LEAST_POINTER), None
        )
        telling = None if own is None else ToldLine(own.text, str(own.line.place))
    return replace(failed, telling=telling or failed.telling, cause=cause or failed.cause)


def with_pointer(trouble: Trouble, causes: Causes, ranked: Sequence[StandingOut]) -> Trouble:
    """Add the likely cause to a trouble that no rule explains with certainty."""
    if trouble.cause is not None and (trouble.cause.is_cause or trouble.cause.is_pointer):
        return trouble
    told = trouble.telling
    if told is None and (line := telling_line(trouble.facts.message)) is not None:
        told = ToldLine(line, "")
    doubtful = causes.doubtful.get(trouble.service, ())
    cause = likely_cause(trouble.service, told, trouble.cause, doubtful, ranked)
    return trouble if cause is None else replace(trouble, cause=cause)


def _telling(lines: Sequence[LogLine], beyond: LineWeight = LineWeight.PLAIN) -> ToldLine | None:
    """Return the line that tells most; None where none tells more than `beyond`."""
    best = max(reversed(lines), key=lambda line: weight(line.text.strip()), default=None)
    if best is None or weight(best.text.strip()) <= beyond:
        return None
    return ToldLine(best.text.strip(), str(best.place))


def _with_telling(trouble: Trouble, causes: Causes) -> Trouble:
    """Add the number of dropped messages, and the line that says most if the last lines say little."""
    log = causes.evidence.unit_logs.get(f"{trouble.service}.service")
    if log is not None and log.suppressed:
        trouble = replace(trouble, suppressed=log.suppressed)
    message_line = telling_line(trouble.facts.message)
    message_weight = LineWeight.PLAIN if message_line is None else max(LineWeight.PLAIN, weight(message_line))
    if message_weight >= LineWeight.ERROR:
        return trouble
    lines = [line for line in causes.evidence.own.get(trouble.service, ()) if _is_of_run(line, trouble.run)]
    telling = _telling(lines, message_weight)
    return trouble if telling is None else replace(trouble, telling=telling)


def _is_of_run(line: LogLine, run: Run) -> bool:
    if line.kind == SYSTEMD or line.time is None:
        return False
    return is_between(line.time, run.started or run.first_entry, run.ended)
