"""Find the cause of a failure: test all rules against the evidence and choose one match. Pure.

Matches are sorted by rank (see `_RANKS`), then by the proximity of their evidence (last lines of the service,
other lines of the run, facts, other sources), then by the order of the rules, deepest first. A rule may name
other rules that it explains (`over`).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pkgutil import get_data
from typing import Final
from zlib import crc32

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.cause_rules import CauseRule, Rank
from service_record.diagnosis.evidence.host_evidence import NO_EVIDENCE, Evidence
from service_record.diagnosis.findings import KnownCause, TroubleFacts, Weighed
from service_record.diagnosis.judged_host import JudgedHost
from service_record.diagnosis.matching import CauseMatcher, Match, RuleBook
from service_record.history import History

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
    """The rules of known causes, from deep causes to symptoms, and the evidence of one host."""

    def __init__(
        self,
        rules: Iterable[CauseRule] | RuleBook,
        evidence: Evidence = NO_EVIDENCE,
        history: History | None = None,
        known_lines: frozenset[str] = frozenset(),
    ) -> None:
        self.book = rules if isinstance(rules, RuleBook) else RuleBook(lambda: rules)
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
        return Causes(self.book, evidence, history, self.known_lines)

    @property
    def rules(self) -> Sequence[CauseRule]:
        """Return the rules, which are read on first use. Raises OSError if the disk cannot read them."""
        return self.book.rules

    def without_evidence(self, history: History) -> "Causes":
        """Return the same rules for another host that has only records."""
        return self.with_evidence(NO_EVIDENCE, history)

    @cached_property
    def host(self) -> JudgedHost:
        """Return the roles, programs and check findings of the host."""
        return JudgedHost(self.evidence, self.history)

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


def find_new_evidence(bad: Causes, good: Causes) -> tuple[KnownCause, ...]:
    """Return the causes that rules find in the files of a bad host but not in those of a good one."""
    names = {cause.name for cause in _find_evident(good)}
    return tuple(cause for cause in _find_evident(bad) if cause.name not in names)


def _find_evident(causes: Causes) -> Iterator[KnownCause]:
    """Yield the causes and contributing causes in the files of a host, whatever its services did."""
    matcher = CauseMatcher(causes.book, causes.evidence, causes.host, None)
    for rule in map(causes.rules.__getitem__, matcher.find_candidates()):
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
    for order in matcher.find_candidates():
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
    if matcher.find_unexplained_error(fit.match for fit in fits) is not None:
        # The service logged an error that no rule matches. It may be the real cause, so no other is certain.
        doubt = "the service itself logged another error"
        fits = [replace(fit, match=replace(fit.match, doubt=fit.match.doubt or doubt)) for fit in fits]
    ranked = sorted(fits, key=lambda fit: (_RANKS[fit.rule.rank], fit.match.proximity, fit.order))
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
    *("cause_rules.py", "evidence/line_patterns.py", "yaml_files.py"),
)


class _ParsedRules(msgspec.Struct):
    sums: dict[str, int]
    """CRC-32 of each file that the rules were made from."""
    rules: tuple[CauseRule, ...]


@cache
def built_in_rules() -> tuple[CauseRule, ...]:
    """Return the built-in rules, from deep causes to symptoms."""
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
    return Causes(RuleBook(built_in_rules))
