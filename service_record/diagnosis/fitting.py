"""One trouble, or a host without any, and what of a rule fits the evidence that bears on it. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from itertools import chain, islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.cause_rules import (
    OWN,
    CauseRule,
    Condition,
    LineTest,
    Rank,
    commands_filled,
)
from service_record.diagnosis.evidence.fact_checks import MEASURES
from service_record.diagnosis.evidence.known_facts import KnownFacts
from service_record.diagnosis.evidence.log_lines import (
    INSTALLER,
    KERNEL,
    SYSTEMD,
    LinePlace,
    LogLine,
    is_of,
    is_own_line,
)
from service_record.diagnosis.evidence.notable import notable_patterns
from service_record.diagnosis.findings import unrepeated
from service_record.diagnosis.judged_host import JudgedHost
from service_record.diagnosis.line_patterns import LineSet, Pattern
from service_record.diagnosis.trouble_facts import POINTS_TO, Evidence, KnownCause, TroubleFacts, is_labelled

_MAX_BYTES: Final = 1 << 16
"""Of a message so much is looked at: its end."""
_BEFORE: Final = timedelta(minutes=10)
_AFTER: Final = timedelta(minutes=2)
"""A line elsewhere belongs to a run from ten minutes before its start to two minutes after its end."""
_OWN_SLACK: Final = timedelta(seconds=2)
_LOGGED_ONCE: Final = frozenset({INSTALLER, KERNEL})
"""Sources that log a problem once, however long it lasts."""
_HEALED_PART: Final = 4
_LEAST_HEALED: Final = timedelta(minutes=5)
_LEAST_HEALED_LINES: Final = 50
"""A problem that may pass has passed if it was last logged more than five minutes and a quarter of the run
before the failure. Without times, a quarter of the file and 50 lines count."""
_WORKED_ON: Final = timedelta(seconds=30)  # longer than the pause before a second try
_WENT_ON: Final = "healthy hosts log it as often, and the service went on"


_UNIT_NAME: Final = r"(?a)[\w:.\\@-]+\.(?:service|socket|target|device|mount|swap|timer|path): "


class Nearness(IntEnum):
    """The distance of a rule's evidence from the failure."""

    MESSAGE = 0
    """In the last lines of the service, or in how it ended."""
    OWN_LINE = 1
    """In further lines of the same run."""
    FACT = 2
    ELSEWHERE = 3
    """In a source that the rule names."""
    UNEXPECTED = 4
    """In another source."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that a condition found."""

    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    line: str | None = None
    found: str | None = None
    """The part of the line that the pattern matched."""
    place: LinePlace | None = None
    time: datetime | None = None
    nearness: Nearness = Nearness.MESSAGE
    by: LogLine | None = None
    doubt: str | None = None
    """Why the line does not prove the cause."""

    def and_then(self, other: "Match") -> "Match":
        """Return both: the line of the first that has one, and the nearest of the two."""
        first = self if self.line is not None else other
        return Match(
            values={**other.values, **self.values},
            line=first.line,
            found=first.found,
            place=first.place,
            time=first.time,
            nearness=first.nearness,
            by=self.by or other.by,
            doubt=self.doubt or other.doubt,
        )


class RuleBook(msgspec.Struct, frozen=True):
    """Rules, and their patterns in sets that are looked for all at once."""

    rules: Mapping[str, CauseRule]
    numbers: Mapping[int, int]
    """Identity of each test of lines -> its number."""
    own_set: LineSet
    own_patterns: Sequence[Pattern]
    """All patterns of what services say themselves."""
    orders: Mapping[int, Sequence[int]]
    """Identity of each pattern and test of lines -> the places of the rules that do not fit without it."""
    always: Sequence[int]
    """Places of the rules that may fit without any line."""

    @classmethod
    def of(cls, rules: Sequence[CauseRule]) -> "RuleBook":
        """Return the book of these rules."""
        tests = [test for rule in rules for test in rule.line_tests()]
        own = [pattern for test in tests if test.where - test.elsewhere for pattern in test.patterns]
        orders: dict[int, list[int]] = {}
        for order, rule in enumerate(rules):
            if (lines := rule.condition.lines) is not None:
                for one in (lines, *lines.patterns):
                    orders.setdefault(id(one), []).append(order)
        return cls(
            rules={rule.name: rule for rule in rules},
            numbers={id(test): number for number, test in enumerate(tests)},
            own_set=LineSet(enumerate(own)),
            own_patterns=own,
            orders=orders,
            always=[order for order, rule in enumerate(rules) if rule.condition.lines is None],
        )

    def line_set(self) -> LineSet:
        """Return the patterns of all tests of lines elsewhere, and those of lines that speak of an error."""
        tests = (test for rule in self.rules.values() for test in tests_elsewhere(rule))
        patterns = ((self.numbers[id(test)], one) for test in tests for one in test.patterns)
        return LineSet(chain(patterns, notable_patterns()))


def tests_elsewhere(rule: CauseRule) -> Iterator[LineTest]:
    """Yield the tests of lines that are looked for in every source.

    A line of a problem that heals, or a symptom, says nothing in a source that the rule does not name. These
    patterns are left out because they are in so many lines that reading a large bundle would take three times
    as long.
    """
    for test in rule.line_tests():
        is_main = test is rule.condition.lines and rule.rank is Rank.CAUSE and not rule.heals
        if test.elsewhere or is_main:
            yield test


class Surroundings:
    """One trouble, or a host without any, and the evidence that bears on it."""

    def __init__(
        self, book: RuleBook, evidence: Evidence, host: JudgedHost, trouble: TroubleFacts | None
    ) -> None:
        self._book = book
        self._evidence = evidence
        self._host = host
        self._trouble = trouble
        self._words = _words(trouble) if trouble is not None else {}
        self._texts = _texts(trouble) if trouble is not None else {}
        self._known: dict[str, Match | None] = {}
        self._message_hits = self._own_hits(self._texts.get("message", b""))
        self._lines = self._own_lines()
        own = b"\n".join(line.text.encode(errors="replace") for line in self._lines)
        self._line_hits = self._own_hits(own)

    def _own_hits(self, text: bytes) -> frozenset[int]:
        """Return the identities of the patterns that are in a text."""
        if not text:
            return frozenset()
        return frozenset(id(self._book.own_patterns[number]) for number in self._book.own_set.tests(text))

    def _own_lines(self) -> tuple[LogLine, ...]:
        """Return all lines of the run in trouble that its service logged, the latest first."""
        trouble = self._trouble
        if trouble is None:
            return ()
        lines = self._evidence.own.get(trouble.service, ())
        first = trouble.run_started and trouble.run_started - _OWN_SLACK
        last = trouble.ended and trouble.ended + _OWN_SLACK
        own = [line for line in lines if is_between(line.time, first, last)]
        return tuple(reversed(own))

    def candidates(self) -> list[int]:
        """Return the places of all rules that may fit: most have lines that are nowhere here."""
        numbers = self._evidence.lines
        tests = (test for test, number in self._book.numbers.items() if number in numbers)
        orders = self._book.orders
        of_lines = (orders.get(one, ()) for one in (*self._message_hits, *self._line_hits, *tests))
        return sorted({*self._book.always, *chain.from_iterable(of_lines)})

    def unexplained_error(self, matches: Iterable[Match]) -> str | None:
        """Return the last error line of the service's own message, if no rule knows a line of the service."""
        if self._trouble is None or any(match.nearness < Nearness.FACT for match in matches):
            return None
        lines = (self._trouble.facts.message or "").splitlines()
        return next((line for line in reversed(lines) if is_labelled(line)), None)

    def fit(self, rule: CauseRule) -> tuple[Match | None, str | None]:
        """Return what a rule found, and why it does not fit where it almost does."""
        match = self._holds(rule.condition, rule)
        if match is None:
            return None, None
        for condition in rule.needs:
            part = self._holds(condition, rule)
            if part is None:
                return match, "something that it needs is missing"
            match = match.and_then(part)
        if any(self._holds(condition, rule) is not None for condition in rule.unless):
            return match, "something speaks against it"
        if self._trouble is None and rule.noise:
            return match, "healthy hosts log it too, and no service has failed"
        if rule.heals and match.by is not None and match.nearness > Nearness.MESSAGE:
            is_kept = self._trouble is not None and match.by.kind in _LOGGED_ONCE
            if not is_kept and self._has_healed(match.by):
                return match, "it has passed: it was logged long before the end"
        return match, None

    def _holds(self, condition: Condition, rule: CauseRule) -> Match | None:
        """Return what a condition found; None when it does not hold."""
        match = Match()
        for part in self._parts(condition, rule):
            if part is None:
                return None
            match = match.and_then(part)
        return match

    def _parts(self, condition: Condition, rule: CauseRule) -> Iterator[Match | None]:
        """Yield what each test of a condition found; None for one that does not hold."""
        for name, patterns_of_word in condition.words.items():
            yield None if patterns_of_word.isdisjoint(self._words.get(name, ())) else Match()
        for name, patterns in condition.texts.items():
            match = _first(patterns, self._texts.get(name, b""))
            yield Match(values=_groups(match)) if match is not None else None
        if condition.lines is not None:
            yield self._line(condition.lines, rule)
        for test in condition.facts:
            yield self._fact(test.name, test.patterns)
        if condition.check is not None:
            yield self._checked(condition.check)
        if condition.roles:
            yield None if condition.roles.isdisjoint(self._host.roles) else Match()
        if condition.rules:
            yield Match() if any(map(self._fits, condition.rules)) else None

    def _fits(self, name: str) -> bool:
        """Return whether another rule fits; one that is being asked for already does not."""
        if name not in self._known:
            self._known[name] = None
            rule = self._book.rules.get(name)
            match, lost = self.fit(rule) if rule is not None else (None, None)
            is_certain = match is not None and lost is None and match.doubt is None
            self._known[name] = match if is_certain else None
        return self._known[name] is not None

    def _line(self, test: LineTest, rule: CauseRule) -> Match | None:
        if test.where - test.elsewhere:
            own = self._in_message(test) or self._in_own_lines(test)
            if own is not None and not (rule.heals and self._went_on(own.by, test)):
                return own
            if own is not None:
                elsewhere = self._elsewhere(test, rule) if test.elsewhere else None
                is_certain = elsewhere is not None and not elsewhere.doubt
                return elsewhere if is_certain else replace(own, doubt=_WENT_ON)
        if not test.elsewhere and rule.rank is not Rank.CAUSE:
            return None
        if not any(test is one.lines for one in rule.unless):
            return self._elsewhere(test, rule)
        lines = [
            line for line in self._lines_elsewhere(test) if any(is_of(line, at) for at in test.elsewhere)
        ]
        return next(iter(self._matches_of(test, lines, Nearness.ELSEWHERE)), None)

    def _in_message(self, test: LineTest) -> Match | None:
        text = self._texts.get("message", b"")
        match = _first([one for one in test.patterns if id(one) in self._message_hits], text)
        values = None if match is None else _values(match, test, self._evidence.facts)
        if match is None or values is None:
            return None
        return Match(values=values, line=_line_of(match, text), found=_decoded(match.group()))

    def _in_own_lines(self, test: LineTest) -> Match | None:
        for pattern in test.patterns:
            if id(pattern) in self._line_hits:
                match = next(self._matches(pattern, self._lines, test, Nearness.OWN_LINE), None)
                if match is not None:
                    return match
        return None

    def _elsewhere(self, test: LineTest, rule: CauseRule) -> Match | None:
        """Return the best match among the lines of all sources; its `doubt` says why it proves nothing."""
        best: Match | None = None
        is_any_boot = rule.within == "any" or self._trouble is not None
        lines = [line for line in self._lines_elsewhere(test) if is_any_boot or not line.is_earlier_boot]
        groups: dict[tuple[Nearness, str], list[LogLine]] = {}
        for line in lines:
            group = self._group(line, test, rule)
            if group is not None:
                groups.setdefault(group, []).append(line)
        # The nearest source comes first, and of one source the lines without a doubt.
        for (nearness, reason), group_lines in sorted(groups.items()):
            doubt = reason
            matches = self._matches_of(test, group_lines, nearness)
            if not matches:
                continue
            if test.measure is not None and len(matches) < test.times:
                continue  # one slow transfer among many fast ones says nothing
            if len(group_lines) < test.times and nearness > Nearness.OWN_LINE:
                if rule.rank is not Rank.CAUSE:
                    continue
                doubt = doubt or "healthy hosts log it as often"
            if nearness is Nearness.OWN_LINE and rule.heals and self._went_on(matches[0].by, test):
                doubt = doubt or _WENT_ON
            match = replace(matches[0], doubt=doubt or None)
            if not doubt:
                return match
            best = best or match
        return best

    def _matches_of(self, test: LineTest, lines: Sequence[LogLine], nearness: Nearness) -> list[Match]:
        return [
            match
            for pattern in test.patterns
            for match in islice(self._matches(pattern, lines[::-1], test, nearness), test.times)
        ]

    def _matches(
        self, pattern: Pattern, lines: Iterable[LogLine], test: LineTest, nearness: Nearness
    ) -> Iterator[Match]:
        """Yield what a pattern finds in lines whose numbers and names are such as the test asks for."""
        for line in lines:
            match = pattern.search(line.text.encode(errors="replace"))
            values = None if match is None else _values(match, test, self._evidence.facts)
            if values is not None:
                yield replace(_of_line(line, values, nearness), found=_decoded(match.group()))

    def _lines_elsewhere(self, test: LineTest) -> tuple[LogLine, ...]:
        return self._evidence.lines.get(self._book.numbers.get(id(test), -1), ())

    def _group(self, line: LogLine, test: LineTest, rule: CauseRule) -> tuple[Nearness, str] | None:
        """Return how near a line is to the failure, and why it may not belong to it; None to ignore it."""
        trouble = self._trouble
        is_named = any(is_of(line, where) for where in test.elsewhere)
        if trouble is None:
            # Nothing has failed: only a line where the rule expects it says that the host gets no further.
            return (Nearness.ELSEWHERE, "") if is_named else None
        is_own = is_own_line(line, trouble.service)
        if not is_named and not is_own and rule.rank is not Rank.CAUSE:
            return None
        run_start = trouble.run_started and trouble.run_started - _OWN_SLACK
        is_of_run = is_own and is_between(line.time, run_start, trouble.ended and trouble.ended + _OWN_SLACK)
        if is_of_run and OWN in test.where:
            nearness = Nearness.OWN_LINE
        else:
            nearness = Nearness.ELSEWHERE if is_named else Nearness.UNEXPECTED
        doubt = self._doubt(line, rule, trouble)
        if not doubt and nearness is Nearness.UNEXPECTED:
            doubt = "another run logged it" if is_own else "another program logged it"
        return nearness, doubt

    def _doubt(self, line: LogLine, rule: CauseRule, trouble: TroubleFacts) -> str:
        """Return why a line may not belong to a failure, by its time and unit; empty if it does."""
        first = trouble.started and trouble.started - _BEFORE
        first = trouble.booted if rule.within == "boot" else first
        if rule.within == "any":
            return ""
        if not is_between(line.time, first, None):
            return "it was logged long before the run"
        if not is_between(line.time, None, trouble.ended and trouble.ended + _AFTER):
            return "it was logged after the failure"
        if line.is_earlier_boot and line.time is None:
            return "it was logged in an earlier boot"
        if line.kind == SYSTEMD and re.match(_UNIT_NAME, line.text) and not self._names_unit(line.text):
            return "it is about another unit"
        return ""

    def _names_unit(self, text: str) -> bool:
        """Return whether a line of systemd names the unit of the service in trouble."""
        service = self._trouble.service if self._trouble is not None else ""
        return re.search(rf"(?:^|[\s/]){re.escape(service)}(?:\.service)?(?:[:/\s]|$)", text) is not None

    def _has_healed(self, line: LogLine) -> bool:
        """Return True if a line was last logged long before the failure, or before the end of its file."""
        trouble = self._trouble
        ended = trouble.ended if trouble is not None else None
        last = ended or self._evidence.last_time(line)
        if line.time is None or last is None or trouble is None:
            behind, count = self._evidence.lines_behind(line)
            if behind > max(_LEAST_HEALED_LINES, count // _HEALED_PART):
                return True
        if line.time is None or last is None:
            return False
        began = trouble.run_started if trouble is not None else None
        span = (last - began) / _HEALED_PART if began is not None else timedelta()
        return last - line.time > max(_LEAST_HEALED, span)

    def _went_on(self, line: LogLine | None, test: LineTest) -> bool:
        """Return True if the service logged a problem no more often than healthy hosts do, and worked on.

        A look-up that fails once and is tried again is no reason for a failure a minute later.
        """
        if line is None or line.time is None or test.times == 1:
            return False
        found = {
            match.by.place
            for pattern in test.patterns
            for match in islice(self._matches(pattern, self._lines, test, Nearness.OWN_LINE), test.times)
            if match.by is not None
        }
        if len(found) >= test.times:
            return False
        last = next((one.time for one in self._lines if one.time is not None), None)
        return last is not None and last - line.time > _WORKED_ON

    def _fact(self, name: str, patterns: Sequence[Pattern]) -> Match | None:
        for fact in self._evidence.facts.all(name):
            match = _first(patterns, fact.value.encode(errors="replace"))
            if match is not None:
                line = f"{fact.of}: {fact.value}" if fact.of else fact.value
                return Match(values=_groups(match), line=line, place=fact.place, nearness=Nearness.FACT)
        return None

    def _checked(self, name: str) -> Match | None:
        finding = self._host.finding(name)
        if finding is None:
            return None
        return Match(values=finding.values, line=finding.line, place=finding.place, nearness=Nearness.FACT)

    def cause(self, rule: CauseRule, match: Match) -> KnownCause:
        """Return what a rule knows, filled in."""
        values = {**_surrounding_words(self._trouble, match.by), **match.values}
        return KnownCause(
            name=rule.name,
            says=rule.says.filled(values),
            explains=rule.explains.filled(values).strip() or None if rule.explains else None,
            commands=unrepeated(self._host.adapt(commands_filled(rule.next, values))),
            rank=str(rule.rank) if match.doubt is None or rule.rank is not Rank.CAUSE else POINTS_TO,
            doubt=match.doubt,
            is_last=rule.is_last,
            line=match.line,
            found=match.found,
            place=str(match.place) if match.place is not None else None,
            of=match.by.name if match.by is not None else None,
        )


def is_between(time: datetime | None, first: datetime | None, last: datetime | None) -> bool:
    """Return whether a time is between two others; one that is not known may be."""
    if time is None:
        return True
    return (first is None or first <= time) and (last is None or time <= last)


def _values(match: Any, test: LineTest, facts: KnownFacts) -> Mapping[str, str] | None:
    """Return the groups of a match and what is measured of them; None where a test of them is not met."""
    groups = _groups(match)
    for group, fact in test.same.items():
        # An address is known with the length of its network: 192.0.2.20/24.
        if groups.get(group) not in {one.value.partition("/")[0] for one in facts.all(fact)}:
            return None
    measured = {} if test.measure is None else MEASURES[test.measure].of(groups)
    return None if measured is None else {**groups, **measured}


def _of_line(line: LogLine, values: Mapping[str, str], nearness: Nearness) -> Match:
    return Match(
        values=values, line=line.text.strip(), place=line.place, time=line.time, nearness=nearness, by=line
    )


def _words(trouble: TroubleFacts) -> dict[str, Collection[str]]:
    facts = trouble.facts
    return {
        "kind": trouble.kinds,
        "exit": () if facts.exit_code is None else (str(facts.exit_code),),
        "signal": () if facts.signal is None else (facts.signal,),
        "systemd": tuple(filter(None, (facts.service_result, facts.time_limit))),
    }


def _texts(trouble: TroubleFacts) -> dict[str, bytes]:
    texts = {
        "service": trouble.service,
        "stage": trouble.stage,
        "command": trouble.facts.command,
        "message": trouble.facts.message,
    }
    return {name: (text or "")[-_MAX_BYTES:].encode(errors="replace") for name, text in texts.items()}


def _first(patterns: Iterable[Pattern], text: bytes) -> Any:
    if not text:
        return None
    return next(filter(None, (pattern.search(text) for pattern in patterns)), None)


def _surrounding_words(trouble: TroubleFacts | None, line: LogLine | None) -> dict[str, str]:
    """Return the values that every rule may use; of a host without trouble, who wrote the line."""
    if trouble is None:
        name = line.name if line is not None else "host"
        return {"service": name, "unit": f"{name}.service"}
    values = {
        "service": trouble.service,
        "unit": f"{trouble.service}.service",
        "stage": trouble.stage,
        "invocation": trouble.invocation_id,
    }
    return {name: value for name, value in values.items() if value}


def _groups(match: Any) -> dict[str, str]:
    return {
        _decoded(name): _decoded(value)
        for name, value in match.groupdict().items()
        if value and value.strip()
    }


def _decoded(name: bytes | str) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def _line_of(match: Any, text: bytes) -> str:
    begin = text.rfind(b"\n", 0, match.start()) + 1
    end = text.find(b"\n", match.end())
    return text[begin : end if end >= 0 else None].decode(errors="replace").strip()
