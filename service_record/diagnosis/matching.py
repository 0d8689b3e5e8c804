"""Match the rules of known causes against the evidence of one host. Pure.

A `RuleBook` prepares the rules once. A `CauseMatcher` tests them for one trouble, or for a host without a
failed service. `causes` ranks the matches.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from functools import cached_property
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
    fill_commands,
)
from service_record.diagnosis.connections import CLOCK_SLACK, find_things, is_between, make_failure_context
from service_record.diagnosis.evidence.error_lines import is_labelled
from service_record.diagnosis.evidence.fact_checks import MEASURES
from service_record.diagnosis.evidence.facts import KnownFacts
from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.evidence.line_patterns import LineSet, Pattern
from service_record.diagnosis.evidence.log_lines import (
    INSTALLER,
    KERNEL,
    OTHER,
    SYSTEMD,
    LinePlace,
    LogLine,
    is_own_line,
    matches_source,
)
from service_record.diagnosis.evidence.named_things import (
    are_different,
    find_existing,
    follow_link,
    list_named_things,
    normalize_name,
    parse_working_patterns,
)
from service_record.diagnosis.evidence.scan import list_evidence_patterns
from service_record.diagnosis.findings import POINTS_TO, KnownCause, TroubleFacts, drop_repeated
from service_record.diagnosis.judged_host import JudgedHost
from service_record.diagnosis.units import unit_name

_MAX_MESSAGE_CHARACTERS: Final = 1 << 16
"""Only the end of a longer message is searched."""
_BEFORE_RUN: Final = timedelta(minutes=10)
_AFTER_RUN: Final = timedelta(minutes=2)
"""A line of another source counts from this long before the start of a run until this long after its end."""
_LOGGED_ONCE: Final = frozenset({INSTALLER, KERNEL})
"""Sources that log a problem once, even if it lasts: their old lines remain valid."""
_HEALED_PART: Final = 4
_LEAST_HEALED: Final = timedelta(minutes=5)
_LEAST_HEALED_LINES: Final = 50
"""A problem that may pass by itself has passed if its last line is older than both limits: five minutes and
a quarter of the run, counted back from the failure. Without times: 50 lines and a quarter of the file."""
_LEAST_CONTINUED: Final = timedelta(seconds=30)  # longer than the usual pause before a retry
_MOST_COMPARED: Final = 20
"""Number of own lines of one pattern among which a line is preferred that does not say "continuing"."""
_SERVICE_CONTINUED: Final = "healthy hosts log it as often, and the service went on"
_CONTINUES: Final = r"""(?xi)
      (?: [,;.)(] | \s[\u2014-] ) \s* (?: (?:and|but|so|now|we|will|is|are) \s+ ){0,3}    # a last clause
        (?: (?P<again> (?: (?:re)?trying | (?:re)?try\sagain | retry | waiting )
              \b (?! [^\n]{0,40} \b (?:exceeded|exhausted|expired|limit\sreached) \b ) )
          | skipp(?:ed|ing) | ignor(?:ed|ing) | continu(?:e|ing) | proceeding | falling\sback
          | using\s(?:the\s)?defaults? )
        \b (?! [^\n]{0,40} (?:timed\sout|fail|giving\sup) ) [^\n:;"]{0,40} (?: " | $ )
    | \b while\sSSL\shandshaking\b [^\n]{0,40} ,\sclient:                               # nginx
    | \b TLS\shandshake\serror\sfrom\s                                                  # servers in Go
    | ^ [^\s]{3,60}:\d{1,5} \s (?:\[[^\]\n]{1,40}\]\s)? [\w~-]{1,60}/\S{1,60}: \s SSL\s   # haproxy
    | \[client\s[^\]\n]{3,60}\] \s AH\d{5}: | \[ssl:(?:info|debug)\]                       # Apache
    | \b SSL_accept\serror\sfrom\s | \b lost\sconnection\safter\sSTARTTLS\sfrom\s          # Postfix
    """
"""A line that reports a problem, and that its program continues: it skips something, tries again, or serves
other clients."""
WORKS_LATER: Final = "a later line shows that it works"
EXISTS: Final = "the host has what the line reports as missing"
OF_UNKNOWN_MOUNT: Final = "several mounts failed, and it is not known which of them needs this device"
OF_UNNAMED_UNIT: Final = "the log does not show for which unit the program ran"
ABOUT_ANOTHER_UNIT: Final = "it is about another unit"
SPEAKS_AGAINST: Final = "something speaks against it"
HAS_PASSED: Final = "it has passed: it was logged long before the end"
MAY_HAVE_PASSED: Final = "another program logged it, and it may have passed"
UNCONNECTED: Final = "another program logged it, and nothing connects it with the failure"
_WAS_SURVIVED: Final = "the service logged another error after it"
_SAYS_IT_CONTINUED: Final = "the line says that its program went on"
_OF_UNIT: Final = frozenset({"service", "unit"})
"""Placeholders of commands about the unit of the failed service."""
_MOUNT: Final = ".mount"
_UNIT_NAME: Final = r"(?a)[\w:.\\@-]+\.(?:service|socket|target|device|mount|swap|timer|path): "


class Proximity(IntEnum):
    """How near the evidence of a rule is to the failure. Lower is nearer."""

    MESSAGE = 0
    """The last lines of the service, or its exit status, signal or result."""
    OWN_LINE = 1
    """Another line of the same run."""
    FACT = 2
    ELSEWHERE = 3
    """A line of a source that the rule names."""
    UNEXPECTED = 4
    """A line of another source."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that a condition holds."""

    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    line: str | None = None
    found: str | None = None
    """The part of the line that the pattern matched."""
    place: LinePlace | None = None
    time: datetime | None = None
    proximity: Proximity = Proximity.MESSAGE
    by: LogLine | None = None
    """The log line; None if the evidence is a message or a fact."""
    doubt: str | None = None
    """Why the line does not prove the cause."""

    def combine_with(self, other: "Match") -> "Match":
        """Return one match for both: the line of the first match that has a line, and the values of both.

        If this line is a fact, `by` is the log line of the other match, whose program is named to the user.
        """
        first = self if self.line is not None else other
        is_message = first.line is not None and first.proximity is Proximity.MESSAGE
        return Match(
            values={**other.values, **self.values},
            line=first.line,
            found=first.found,
            place=first.place,
            time=first.time,
            proximity=first.proximity,
            by=None if is_message else self.by or other.by,
            doubt=self.doubt or other.doubt,
        )


class RuleBook:
    """Rules with indexes. All patterns are searched at once, and only the rules with a hit are tested.

    Rules and indexes are made on first use, because a host without a failure and without files needs none.

    The way of a line from a file to a cause:

    1. `Scanner` searches each block of a file with `patterns`, the only search for patterns of rules. A line
       that matches is kept with the numbers of its line tests (`Evidence.lines`).
    2. `CauseMatcher` searches the last lines of the failed service and its other lines of the run with the
       same `patterns`, because a record is not among the files.
    3. The rules of the tests that were found are candidates. `CauseMatcher.fit` reads the values in the line
       (named groups), and weighs its place, time and repetition, and the evidence against it.
    4. `causes` ranks the rules that fit. `ranking` chooses the likely cause if none is certain.
    """

    def __init__(self, read_rules: Callable[[], Iterable[CauseRule]]) -> None:
        """Take a function that returns the rules, ordered from deep causes to symptoms. It is called once."""
        self._read_rules = read_rules

    @cached_property
    def rules(self) -> Sequence[CauseRule]:
        """Return the rules in their order: deep causes first, symptoms last."""
        return tuple(self._read_rules())

    @cached_property
    def by_name(self) -> Mapping[str, CauseRule]:
        return {rule.name: rule for rule in self.rules}

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """Return `id()` of each line test -> its number, which `Evidence.lines` uses."""
        tests = (test for rule in self.rules for test in rule.list_line_tests())
        return {id(test): number for number, test in enumerate(tests)}

    @cached_property
    def patterns(self) -> LineSet:
        """Return the patterns of all rules, of error lines, and of lines that show that something works."""
        tests = [(rule, test) for rule in self.rules for test in rule.list_line_tests()]
        numbered = ((number, one) for number, (_, test) in enumerate(tests) for one in test.patterns)
        # Below `cause`, a test that names no other source counts only in the failed service's own lines.
        # Healthy hosts log many such lines, such as refused connections: files are not searched for them.
        own_only = frozenset(
            number
            for number, (rule, test) in enumerate(tests)
            if rule.rank is not Rank.CAUSE and not test.elsewhere
        )
        return LineSet(chain(numbered, list_evidence_patterns()), own_only)

    @cached_property
    def orders(self) -> Mapping[int, int]:
        """Return number of each line test -> the position of the rule whose main condition it belongs to."""
        main = ((order, rule.condition.lines) for order, rule in enumerate(self.rules))
        return {self.numbers[id(test)]: order for order, test in main if test is not None}

    @cached_property
    def always(self) -> Sequence[int]:
        """Return the positions of the rules that do not need a line."""
        return [order for order, rule in enumerate(self.rules) if rule.condition.lines is None]


class CauseMatcher:
    """Tests rules for one trouble, or for a host without a failed service (`trouble` is None)."""

    def __init__(
        self, book: RuleBook, evidence: Evidence, host: JudgedHost, trouble: TroubleFacts | None
    ) -> None:
        self._book = book
        self._evidence = evidence
        self._host = host
        self._trouble = trouble
        self._words = _list_words(trouble) if trouble is not None else {}
        self._texts = _list_texts(trouble) if trouble is not None else {}
        self._known: dict[str, Match | None] = {}
        """Rule name -> its certain match, for conditions that refer to other rules."""
        self._failure = None if trouble is None else make_failure_context(trouble, evidence)
        self._lines = () if self._failure is None else self._failure.lines
        self._meanwhile = () if self._failure is None else self._failure.meanwhile
        self._device = "" if self._failure is None else self._failure.device
        message = self._texts.get("message", b"")
        self._message_tests = book.patterns.tests(message) if message else set[int]()
        self._line_tests = {
            test for line in self._lines for test in book.patterns.tests(line.text.encode(errors="replace"))
        }

    def find_candidates(self) -> list[int]:
        """Return the positions of the rules that can fit, in order.

        Most rules need a line that does not occur on this host. They are skipped without a test.
        """
        orders = self._book.orders
        found = self._message_tests | self._line_tests | self._evidence.lines.keys()
        return sorted({*self._book.always, *(orders[test] for test in found & orders.keys())})

    def find_unexplained_error(self, matches: Iterable[Match]) -> str | None:
        """Return the last labelled error of the message, if no match comes from the service's own lines."""
        if self._trouble is None or any(match.proximity < Proximity.FACT for match in matches):
            return None
        lines = (self._trouble.facts.message or "").splitlines()
        return next((line for line in reversed(lines) if is_labelled(line)), None)

    def fit(self, rule: CauseRule) -> tuple[Match | None, str | None]:
        """Test a rule. Return its match, and the reason why the match does not count, or None if it counts.

        Both are None if the main condition does not hold.
        """
        match = self._match_condition(rule.condition, rule)
        if match is None:
            return None, None
        for condition in rule.needs:
            part = self._match_condition(condition, rule)
            if part is None:
                return match, "something that it needs is missing"
            match = match.combine_with(part)
        against = [(one, self._match_condition(one, rule)) for one in rule.unless]
        if any(found is not None and _reads_line_better(one, found, match) for one, found in against):
            return match, "the line means something else"
        is_contradicted = any(found is not None for _, found in against)
        doubt = SPEAKS_AGAINST if is_contradicted else self._find_counter_evidence(rule, match)
        if rule.rank is not Rank.CAUSE:
            # Below `cause` there is no weaker word to fall to: a doubted symptom would be shown as a fact.
            return match, doubt
        if doubt is None and match.line is not None:
            doubt = match.doubt or self._find_line_doubt(rule, match, match.line)
            doubt = doubt or self._find_contradiction(match)
            doubt = doubt or self._find_existing(match) or self._find_other_mount(match)
        return replace(match, doubt=doubt or match.doubt), None

    def _find_counter_evidence(self, rule: CauseRule, match: Match) -> str | None:
        """Return why other evidence makes a match unlikely; None if nothing speaks against it."""
        if self._trouble is None and rule.noise:
            return "healthy hosts log it too, and no service has failed"
        if rule.heals and match.by is not None and match.proximity > Proximity.MESSAGE:
            is_kept = self._trouble is not None and match.by.kind in _LOGGED_ONCE
            if not is_kept and self._has_healed(match.by):
                return HAS_PASSED
        return None

    def _find_line_doubt(self, rule: CauseRule, match: Match, line: str) -> str | None:
        """Return why a line that belongs to the failure does not prove the cause; None if it does."""
        if match.proximity is Proximity.FACT:
            return None
        if says_it_continues(line, is_own=match.proximity <= Proximity.OWN_LINE):
            return _SAYS_IT_CONTINUED
        if rule.noise and match.proximity <= Proximity.OWN_LINE and self._has_later_error(match):
            return _WAS_SURVIVED
        if rule.program is None:
            return None
        writer = (match.by.name, match.by.unit) if match.by is not None else ()
        texts = [line.encode(errors="replace"), *(name.encode() for name in writer), *self._texts.values()]
        return None if _find_first([rule.program], b"\n".join(texts)) else "no line names the program"

    def _has_later_error(self, match: Match) -> bool:
        """Return True if the service later logged an error that no rule knows, about something else."""
        if self._failure is None or match.line is None:
            return False
        texts = (
            [line.text for line in reversed(self._lines)] if match.by else self._failure.message.splitlines()
        )
        lines = [text.strip() for text in texts]
        first = lines.index(match.line) + 1 if match.line in lines else len(lines)
        named = match.line.lower()
        return any(
            not all(thing in named for thing in find_things(line)) and not self._is_known(line)
            for line in lines[first:]
            if is_labelled(line)
        )

    def _is_known(self, text: str) -> bool:
        """Return True if the main condition of any rule has a pattern that the text matches."""
        return not self._book.orders.keys().isdisjoint(
            self._book.patterns.tests(text.encode(errors="replace"))
        )

    def _find_contradiction(self, match: Match) -> str | None:
        """Return a doubt if a later line shows that the device or host in a match works, else None."""
        time, place = match.time, match.place
        if match.by is None:  # the message of a record; its copy in the journal has a time
            first = (match.line or "").partition("\n")[0].strip()
            own = next((one for one in self._lines if one.text.strip() == first), None)
            time, place = (None, None) if own is None else (own.time, own.place)
        last = self._trouble.ended if self._trouble is not None else None
        for kind, name in list_named_things(match.values):
            number, patterns = parse_working_patterns()[kind]
            for line in self._evidence.lines.get(number, ()):
                if not is_between(line.time, None, last) or not _is_later(line, time, place):
                    continue
                working = _find_first(patterns, f"{line.name}[1]: {line.text}".encode(errors="replace"))
                if working is not None and normalize_name(kind, _read_groups(working)[kind]) == name:
                    return f"{WORKS_LATER}: {line.place}"
        return None

    def _find_existing(self, match: Match) -> str | None:
        """Return a doubt if the host has what a line reports as missing, else None."""
        existing = find_existing(match.found or "", match.values, self._evidence, self._host.names)
        return f"{EXISTS}: {existing}" if existing else None

    def _find_other_mount(self, match: Match) -> str | None:
        """Return a doubt if a line of the kernel may be about another failed mount, else None."""
        service = self._trouble.service if self._trouble is not None else ""
        if match.by is None or match.by.kind != KERNEL or self._device or not service.endswith(_MOUNT):
            return None
        logs = self._evidence.unit_logs
        others = (name for name, log in logs.items() if name.endswith(_MOUNT) and log.result is not None)
        is_alone = all(name == service for name in others)
        return None if is_alone or "device" not in match.values else OF_UNKNOWN_MOUNT

    def _match_condition(self, condition: Condition, rule: CauseRule) -> Match | None:
        """Return the evidence for a condition; None if the condition does not hold."""
        match = Match()
        for part in self._test_condition(condition, rule):
            if part is None:
                return None
            match = match.combine_with(part)
        return match

    def _test_condition(self, condition: Condition, rule: CauseRule) -> Iterator[Match | None]:
        """Yield the match of each test in a condition, and None for a test that fails."""
        for name, patterns_of_word in condition.words.items():
            yield None if patterns_of_word.isdisjoint(self._words.get(name, ())) else Match()
        for name, patterns in condition.texts.items():
            match = _find_first(patterns, self._texts.get(name, b""))
            yield Match(values=_read_groups(match)) if match is not None else None
        if condition.lines is not None:
            yield self._match_line(condition.lines, rule)
        for test in condition.facts:
            yield self._match_fact(test.name, test.patterns)
        if condition.check is not None:
            yield self._run_check(condition.check)
        if condition.roles:
            yield None if condition.roles.isdisjoint(self._host.roles) else Match()
        if condition.rules:
            yield Match() if any(map(self._rule_fits, condition.rules)) else None

    def _rule_fits(self, name: str) -> bool:
        """Return True if another rule fits with certainty.

        A rule that is already being tested counts as not fitting: rules may refer to each other in a circle.
        """
        if name not in self._known:
            self._known[name] = None
            rule = self._book.by_name.get(name)
            match, lost = self.fit(rule) if rule is not None else (None, None)
            is_certain = match is not None and lost is None and match.doubt is None
            self._known[name] = match if is_certain else None
        return self._known[name] is not None

    def _match_line(self, test: LineTest, rule: CauseRule) -> Match | None:
        """Return the nearest match of a line test: the service's own lines first, then other sources."""
        if test.where - test.elsewhere:
            own = self._match_message(test) or self._match_own_lines(test, rule)
            if own is not None and rule.heals and self._has_continued_after(own.by, test):
                own = replace(own, doubt=_SERVICE_CONTINUED)
            if own is not None and own.doubt is None:
                return own
            if own is not None:
                elsewhere = self._match_elsewhere(test, rule) if test.elsewhere else None
                return elsewhere if elsewhere is not None and not elsewhere.doubt else own
        if not test.elsewhere and rule.rank is not Rank.CAUSE:
            return None
        if not any(test is one.lines for one in rule.unless):
            return self._match_elsewhere(test, rule)
        # A line in `unless` counts at any time, but only in a source that the rule names.
        lines = [
            line
            for line in self._find_kept_lines(test)
            if any(matches_source(line, at) for at in test.elsewhere)
        ]
        return next(iter(self._find_all(test, lines, Proximity.ELSEWHERE)), None)

    def _match_message(self, test: LineTest) -> Match | None:
        """Return a match in the message of the trouble."""
        if self._book.numbers[id(test)] not in self._message_tests:
            return None
        text = self._texts["message"]
        match = _find_first(test.patterns, text)
        if match is not None and says_it_continues(_find_whole_line(match, text)):
            # Prefer a line after which the program did not continue: it is nearer to the failure.
            lines = text.decode(errors="replace").splitlines()
            final = "\n".join(line for line in lines if not says_it_continues(line)).encode(errors="replace")
            if (later := _find_first(test.patterns, final)) is not None:
                match, text = later, final
        values = None if match is None else _read_values(match, test, self._evidence.facts)
        if match is None or values is None:
            return None
        return Match(values=values, line=_find_whole_line(match, text), found=_decode(match.group()))

    def _match_own_lines(self, test: LineTest, rule: CauseRule) -> Match | None:
        """Return a match in the other lines of the run, latest lines first."""
        if self._book.numbers[id(test)] not in self._line_tests:
            return None
        found = (self._find_in_lines(one, self._lines, test, Proximity.OWN_LINE) for one in test.patterns)
        matches = list(chain.from_iterable(islice(lines, _MOST_COMPARED) for lines in found))
        best = min(matches, key=lambda match: says_it_continues(match.line or ""), default=None)
        if best is None or best.by is None or best.by not in self._meanwhile:
            return best
        if self._is_named_after(best.by.name):
            return best
        return replace(best, doubt=OF_UNNAMED_UNIT) if rule.rank is Rank.CAUSE else None

    def _is_named_after(self, program: str) -> bool:
        """Return True if only the failed service has the program in its name: `podman-web` and `podman`."""
        word = program.partition("-")[0]
        named = {service for service in self._evidence.started if word in re.split(r"[-@.]", service)}
        return self._trouble is not None and named == {self._trouble.service}

    def _match_elsewhere(self, test: LineTest, rule: CauseRule) -> Match | None:
        """Return the best match in the lines of all sources. If it proves nothing, its `doubt` says why."""
        best: Match | None = None
        is_any_boot = rule.within == "any" or self._trouble is not None
        lines = [line for line in self._find_kept_lines(test) if is_any_boot or not line.is_earlier_boot]
        groups: dict[tuple[Proximity, str], list[LogLine]] = {}
        for line in lines:
            group = self._classify_line(line, test, rule)
            if group is not None:
                groups.setdefault(group, []).append(line)
        # Sorted: nearest sources first, and within one source the lines without a doubt (an empty reason).
        for (proximity, reason), group_lines in sorted(groups.items()):
            doubt = reason
            matches = self._find_all(test, group_lines, proximity)
            if not matches:
                continue
            if test.measure is not None and len(matches) < test.times:
                continue  # a few slow transfers among fast ones are not a cause
            if len(group_lines) < test.times and proximity > Proximity.OWN_LINE:
                if rule.rank is not Rank.CAUSE:
                    continue
                doubt = doubt or "healthy hosts log it as often"
            if (
                proximity is Proximity.OWN_LINE
                and rule.heals
                and self._has_continued_after(matches[0].by, test)
            ):
                doubt = doubt or _SERVICE_CONTINUED
            match = replace(matches[0], doubt=doubt or None)
            if not doubt:
                return match
            best = best or match
        return best

    def _find_all(self, test: LineTest, lines: Sequence[LogLine], proximity: Proximity) -> list[Match]:
        """Return at most `test.times` matches of each pattern, latest lines first."""
        return [
            match
            for pattern in test.patterns
            for match in islice(self._find_in_lines(pattern, lines[::-1], test, proximity), test.times)
        ]

    def _find_in_lines(
        self, pattern: Pattern, lines: Iterable[LogLine], test: LineTest, proximity: Proximity
    ) -> Iterator[Match]:
        """Yield the lines that match a pattern and pass the `measure` and `same` checks of the test."""
        for line in lines:
            match = pattern.search(line.text.encode(errors="replace"))
            values = None if match is None else _read_values(match, test, self._evidence.facts)
            if values is not None and not self._is_of_another_device(values):
                yield Match(
                    values=values,
                    line=line.text.strip(),
                    found=_decode(match.group()),
                    place=line.place,
                    time=line.time,
                    proximity=proximity,
                    by=line,
                )

    def _is_of_another_device(self, values: Mapping[str, str]) -> bool:
        """Return True if a line is about another device than the one that the failed unit needs."""
        named = values.get("device")
        if not named or not self._device:
            return False
        return are_different(follow_link(named, self._evidence.facts), self._device)

    def _find_kept_lines(self, test: LineTest) -> tuple[LogLine, ...]:
        """Return the lines of all files in which the scanner found a pattern of the test."""
        return self._evidence.lines.get(self._book.numbers.get(id(test), -1), ())

    def _classify_line(self, line: LogLine, test: LineTest, rule: CauseRule) -> tuple[Proximity, str] | None:
        """Return the proximity of a line and its doubt (empty if none); None if the line is to be ignored."""
        trouble = self._trouble
        is_named = any(matches_source(line, where) for where in test.elsewhere)
        if trouble is None:
            # Nothing has failed: only a line in a source that the rule names shows that the host is blocked.
            return (Proximity.ELSEWHERE, "") if is_named else (Proximity.UNEXPECTED, "no service failed")
        is_own = is_own_line(line, trouble.service)
        if not is_named and not is_own and rule.rank is not Rank.CAUSE:
            return None
        run_start = trouble.run_started and trouble.run_started - CLOCK_SLACK
        is_of_run = is_own and is_between(line.time, run_start, trouble.ended and trouble.ended + CLOCK_SLACK)
        if is_of_run and OWN in test.where:
            proximity = Proximity.OWN_LINE
        else:
            proximity = Proximity.ELSEWHERE if is_named else Proximity.UNEXPECTED
        doubt = self._find_doubt(line, rule, trouble)
        if not doubt and rule.rank is Rank.CAUSE and says_it_continues(line.text, is_own=is_own):
            doubt = _SAYS_IT_CONTINUED
        if not doubt and proximity is Proximity.UNEXPECTED:
            if is_own:
                doubt = "another run logged it"
            elif self._failure is not None and not self._failure.connects(line):
                doubt = UNCONNECTED
            else:
                doubt = MAY_HAVE_PASSED if rule.heals else "another program logged it"
        return proximity, doubt

    def _find_doubt(self, line: LogLine, rule: CauseRule, trouble: TroubleFacts) -> str:
        """Return why a line may not belong to the failure, judged by its time and unit; empty if it may."""
        first = trouble.started and trouble.started - _BEFORE_RUN
        first = trouble.booted if rule.within == "boot" else first
        if rule.within == "any":
            return ""
        if not is_between(line.time, first, None):
            return "it was logged long before the run"
        if not is_between(line.time, None, trouble.ended and trouble.ended + _AFTER_RUN):
            return "it was logged after the failure"
        if line.is_earlier_boot and line.time is None:
            return "it was logged in an earlier boot"
        if line.kind == SYSTEMD and re.match(_UNIT_NAME, line.text) and not self._names_unit(line.text):
            return ABOUT_ANOTHER_UNIT
        return ""

    def _names_unit(self, text: str) -> bool:
        """Return True if a line of systemd names the unit of the failed service."""
        service = self._trouble.service if self._trouble is not None else ""
        return re.search(rf"(?:^|[\s/]){re.escape(service)}(?:\.service)?(?:[:/\s]|$)", text) is not None

    def _has_healed(self, line: LogLine) -> bool:
        """Return True if a line is much older than the failure or, without times, far from its file's end."""
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

    def _has_continued_after(self, line: LogLine | None, test: LineTest) -> bool:
        """Return True if the service survived a problem that it logged no more often than healthy hosts do.

        For example, one failed DNS look-up that was retried does not explain a failure a minute later.
        """
        if line is None or line.time is None or test.times == 1:
            return False
        found = {
            match.by.place
            for pattern in test.patterns
            for match in islice(
                self._find_in_lines(pattern, self._lines, test, Proximity.OWN_LINE), test.times
            )
            if match.by is not None
        }
        if len(found) >= test.times:
            return False
        last = next((one.time for one in self._lines if one.time is not None), None)
        return last is not None and last - line.time > _LEAST_CONTINUED

    def _match_fact(self, name: str, patterns: Sequence[Pattern]) -> Match | None:
        """Return a match for the first fact with this name whose value fits a pattern."""
        for fact in self._evidence.facts.all(name):
            match = _find_first(patterns, fact.value.encode(errors="replace"))
            if match is not None:
                line = f"{fact.of}: {fact.value}" if fact.of else fact.value
                return Match(
                    values=_read_groups(match), line=line, place=fact.place, proximity=Proximity.FACT
                )
        return None

    def _run_check(self, name: str) -> Match | None:
        """Return a match for the first finding of a check."""
        finding = self._host.finding(name)
        if finding is None:
            return None
        return Match(values=finding.values, line=finding.line, place=finding.place, proximity=Proximity.FACT)

    def cause(self, rule: CauseRule, match: Match) -> KnownCause:
        """Return the cause that a rule names, with its texts and commands filled in from the match."""
        by = match.by
        values = {**_list_common_values(self._trouble, by), **match.values}
        # The `name` of a line in such a file is the name of the file, not of a unit.
        is_of_file = self._trouble is None and by is not None and by.kind in {OTHER, INSTALLER}
        pasted = {name: value for name, value in values.items() if not is_of_file or name not in _OF_UNIT}
        return KnownCause(
            name=rule.name,
            says=rule.says.fill(values),
            explains=rule.explains.fill(values).strip() or None if rule.explains else None,
            commands=drop_repeated(self._host.adapt(fill_commands(rule.next, pasted))),
            rank=str(rule.rank) if match.doubt is None or rule.rank is not Rank.CAUSE else POINTS_TO,
            doubt=match.doubt,
            is_last=rule.is_last,
            line=match.line,
            found=match.found,
            place=str(match.place) if match.place is not None else None,
            of=None if by is None else "" if is_of_file else by.name,
        )


def _reads_line_better(condition: Condition, found: Match, match: Match) -> bool:
    """Return True if a condition in `unless` shows that a rule misreads its own line.

    Another rule knows the line better, or the same line has the words of another meaning. This is more than
    evidence against a cause, which would still leave it likely.
    """
    return bool(condition.rules) or (found.line is not None and found.line == match.line)


def says_it_continues(line: str, *, is_own: bool = True) -> bool:
    """Return True if a line itself says that its program continues after the problem.

    "Trying again" counts only if the failed service logged it (`is_own`): the service may be waiting for
    another program that never succeeds.
    """
    match = re.search(_CONTINUES, line)
    return match is not None and (is_own or not match["again"])


def _is_later(line: LogLine, time: datetime | None, place: LinePlace | None) -> bool:
    """Return True if a line is certainly later than a time, or than a place in the same file."""
    if line.time is not None and time is not None:
        return line.time > time
    is_same_file = place is not None and line.place.path == place.path
    return is_same_file and place is not None and (line.place.line or 0) > (place.line or 0)


def _read_values(match: Any, test: LineTest, facts: KnownFacts) -> Mapping[str, str] | None:
    """Return the named groups of a match and the measured values; None if `same` or `measure` fails."""
    groups = _read_groups(match)
    if not all(_is_same(groups.get(group), fact, facts) for group, fact in test.same.items()):
        return None
    measured = {} if test.measure is None else MEASURES[test.measure].compute(groups)
    return None if measured is None else {**groups, **measured}


def _is_same(value: str | None, name: str, facts: KnownFacts) -> bool:
    """Return True if the fact with this name has the value.

    A path also counts if it lies below a directory that could not be mounted.
    """
    values = [fact.value for fact in facts.all(name)]
    if value is None:
        return False
    if name == "unmounted":
        return any(f"{value}/".startswith(f"{directory}/") for directory in values)
    return value in {one.partition("/")[0] for one in values}  # of addresses without the prefix length


def _list_words(trouble: TroubleFacts) -> dict[str, Collection[str]]:
    """Return the exact values that `Condition.words` is compared with."""
    facts = trouble.facts
    return {
        "kind": trouble.kinds,
        "exit": () if facts.exit_code is None else (str(facts.exit_code),),
        "signal": () if facts.signal is None else (facts.signal,),
        "systemd": tuple(filter(None, (facts.service_result, facts.time_limit))),
    }


def _list_texts(trouble: TroubleFacts) -> dict[str, bytes]:
    """Return the texts that the patterns of `Condition.texts` are searched in."""
    texts = {
        "service": trouble.service,
        "stage": trouble.stage,
        "command": trouble.facts.command,
        "message": trouble.facts.message,
    }
    return {
        name: (text or "")[-_MAX_MESSAGE_CHARACTERS:].encode(errors="replace") for name, text in texts.items()
    }


def _find_first(patterns: Iterable[Pattern], text: bytes) -> Any:
    if not text:
        return None
    return next(filter(None, (pattern.search(text) for pattern in patterns)), None)


def _list_common_values(trouble: TroubleFacts | None, line: LogLine | None) -> dict[str, str]:
    """Return the placeholders that every rule may use.

    Without a trouble, `service` is the program that wrote the line.
    """
    if trouble is None:
        name = line.name if line is not None else "host"
        return {"service": name, "unit": f"{name}.service"}
    values = {
        "service": trouble.service,
        "unit": unit_name(trouble.service),
        "stage": trouble.stage,
        "invocation": trouble.invocation_id,
    }
    return {name: value for name, value in values.items() if value}


def _read_groups(match: Any) -> dict[str, str]:
    """Return the named groups of a match that are neither missing nor blank."""
    return {
        _decode(name): _decode(value) for name, value in match.groupdict().items() if value and value.strip()
    }


def _decode(name: bytes | str) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def _find_whole_line(match: Any, text: bytes) -> str:
    """Return the line that contains a match."""
    begin = text.rfind(b"\n", 0, match.start()) + 1
    end = text.find(b"\n", match.end())
    return text[begin : end if end >= 0 else None].decode(errors="replace").strip()
