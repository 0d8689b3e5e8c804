"""Rank log lines by how much they stand out, and choose the likely cause if no rule is certain. Pure.

A line scores for its severity, writer, time and repetition, without any rule of a cause. It loses points if
healthy hosts log it too. Candidates for the likely cause are the error line of the service, the causes of
rules with doubtful evidence, and the line that stands out most. The candidate with the highest score is shown
as `points to`, if it reaches a minimum.
"""
# ruff: noqa: E501  # patterns are easier to read in long lines

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cache, lru_cache
from pkgutil import get_data
from typing import Final

import msgspec
from msgspec.structs import replace

from service_record.diagnosis.connections import FailureContext
from service_record.diagnosis.evidence.error_lines import LineWeight, NotableLine, line_template, weight
from service_record.diagnosis.evidence.log_lines import CONTAINERS, INSTALLER, KERNEL, LogLine, is_own_line
from service_record.diagnosis.findings import OTHER_ERROR, OWN_ERROR, POINTS_TO, KnownCause, QuotedLine
from service_record.diagnosis.matching import (
    ABOUT_ANOTHER_UNIT,
    HAS_PASSED,
    MAY_HAVE_PASSED,
    OF_UNNAMED_UNIT,
    UNCONNECTED,
)

MOST_SHOWN: Final = 3
_PER_PROGRAM: Final = 2
"""The most lines shown of one program: a flood from one program must not hide the others."""
_OFTEN: Final = 3
"""A line that is logged at least this often scores more."""
_CLOSE: Final = timedelta(minutes=1)
"""The last part of a run, in which a line most likely belongs to the failure."""
_BEFORE: Final = timedelta(minutes=10)
_AFTER: Final = timedelta(minutes=2)
"""Lines from longer before or after a run lose points."""
LEAST_SCORE: Final = 1.0
"""Lines up to this score are not worth reading."""
_SEVERITIES: Final = {
    LineWeight.ASIDE: -9.0,
    LineWeight.AFTERMATH: 0.0,
    LineWeight.PLAIN: 0.5,
    LineWeight.WRAPPER: 1.0,
    LineWeight.ERROR: 3.0,
    LineWeight.LABELLED: 4.0,
}
NEAR_IN_TIME: Final = 1.5
"""The score of a line from the last minute of the run."""
_CRASH_SCORE: Final = 5.0
_CRASH: Final = (
    r"(?a)\bBUG: |\bOops\b|[Kk]ernel panic|general protection fault|Out of memory: Killed|Machine [Cc]heck Exception"
    r"|EXT4-fs error|XFS \S+: (?:Corruption|metadata I/O error)|ordering cycle"
)
_INFORMATION: Final = (
    r"(?xa)level=(?:info|debug)\b | ^[ID]\d{4}\s | ^\[?(?:INFO|DEBUG)\b | <(?:info|debug)> | \[DEBUG\]"
)
_WARNING: Final = r"(?xia)level=warn | ^W\d{4}\s | ^\[?warn | <warn> | \"level\":\"warn\" | \[WARNING\]"
_SHALLOW: Final = r"""(?xia)
      timed \s out \s waiting | context \s deadline \s exceeded | exit (?:ed)? \s (?:status|code|with) | re-?try
    | connection \s refused | not \s (?:yet \s)? ready | i/o \s timeout | waiting \s for
    | ^ (?:error: \s)? unhealthy | no \s error | \b 0 \s (?:errors|failed) | errors? [=:] \s? 0 \b
    | timeout \s reached \s while | \b failed \. $ | see \s the \s log
    """
"""Lines that only report a wait, or a failure of something else."""


class RankedLine(msgspec.Struct, frozen=True):
    """A log line with its number of repetitions and its score."""

    line: LogLine
    count: int
    score: float
    weight: LineWeight
    uncounted: float = 0.0
    """The score for nearness if something connected the line with a failure."""

    @property
    def text(self) -> str:
        return self.line.text.strip()

    @property
    def is_shallow(self) -> bool:
        return is_shallow(self.text, self.weight)


def rank_lines(
    lines: Iterable[NotableLine],
    failures: Sequence[FailureContext] = (),
    known: frozenset[str] = frozenset(),
) -> tuple[RankedLine, ...]:
    """Return the lines by score, highest first.

    `failures` are the services in trouble. `known` has the templates of lines that a healthy host of the same
    kind logged.
    """
    ranked = []
    first_of_program: dict[str, NotableLine] = {}
    lines = list(lines)
    places = {one.line.place for one in lines}
    # The last lines before a failure are worth reading, whatever words they have.
    last = (line for failure in failures for line in failure.meanwhile[-MOST_SHOWN:])
    lines += [NotableLine(line, 1, "") for line in last if line.place not in places]
    for one in lines:
        name = one.line.name
        if name not in first_of_program or _get_time(one) < _get_time(first_of_program[name]):
            first_of_program[name] = one
    for one in lines:
        text = one.line.text.strip()
        own = max((failure.weigh(text) for failure in failures), default=weight(text))
        score = score_text(text, own, is_kernel=one.line.kind == KERNEL)
        # Other daemons log errors all the time. Being near in time counts only for connected lines.
        connected = [failure for failure in failures if failure.connects(one.line)]
        closeness = max((_score_closeness(one, failure) for failure in connected), default=0.0)
        possible = max((_score_closeness(one, failure) for failure in failures), default=0.0)
        score += closeness
        score += {KERNEL: 0.5, CONTAINERS: 0.5, INSTALLER: 0.5}.get(one.line.kind, 0.0)
        score += 0.5 if one.count >= _OFTEN else 0.0
        score += 0.5 if first_of_program[one.line.name] is one else 0.0
        if one.template in known or _is_healthy_line(one.line):
            score -= 6.0
        if one.line.host or one.line.is_earlier_boot:
            score -= 2.0
        ranked.append(RankedLine(one.line, one.count, score, own, possible - closeness))
    ranked.sort(key=lambda one: -one.score)
    return tuple(ranked)


def _get_time(one: NotableLine) -> float:
    return one.line.time.timestamp() if one.line.time is not None else float("inf")


def choose_best(ranked: Iterable[RankedLine], least: float = LEAST_SCORE) -> tuple[RankedLine, ...]:
    """Return at most three lines to show: at most two of each program, all with a score above `least`."""
    shown: list[RankedLine] = []
    for one in ranked:
        of_program = [other for other in shown if other.line.name == one.line.name]
        is_repeated = any(line_template(other.text) == line_template(one.text) for other in shown)
        if one.score > least and len(of_program) < _PER_PROGRAM and not is_repeated:
            shown.append(one)
        if len(shown) == MOST_SHOWN:
            break
    return tuple(shown)


@lru_cache(1024)  # as for `weight`
def score_text(text: str, own: LineWeight, *, is_kernel: bool = False) -> float:
    """Return the score for the text of a line with the weight `own`."""
    severity = _SEVERITIES[own]
    if (is_kernel and re.search(_CRASH, text)) or "ordering cycle" in text:
        severity = _CRASH_SCORE
    elif re.search(_INFORMATION, text):
        severity = min(severity, 1.0)
    elif re.search(_WARNING, text):
        severity = min(severity, 2.0)
    if is_shallow(text, own):
        severity -= 1.5
    # A path, an address or a quoted name makes a line specific.
    return severity + (0.5 if re.search(r"""(?a)\s/\w|["']\S+["']|\w:\d{2,5}\b""", text) else 0.0)


def is_shallow(text: str, own: LineWeight) -> bool:
    """Return True if a line with the weight `own` only reports a wait, or a failure of something else."""
    return re.search(_SHALLOW, text) is not None or own <= LineWeight.WRAPPER


def _score_closeness(one: NotableLine, failure: FailureContext) -> float:
    """Return the score for the writer and the time of a line relative to a failure."""
    line = one.line
    score = 3.0 if is_own_line(line, failure.service) else 2.0 if line in failure.meanwhile else 0.0
    if failure.service in line.text:
        score += 0.5
    last = one.last_time or line.time
    if last is None or failure.ended is None:
        return score
    if line.time is not None and line.time > failure.ended + _AFTER:
        return score - 1.0
    if failure.started is not None and last < failure.started - _BEFORE:
        return score - 1.0
    return score + (NEAR_IN_TIME if failure.ended - last <= _CLOSE else NEAR_IN_TIME - 0.5)


def _is_healthy_line(line: LogLine) -> bool:
    """Return True if healthy hosts are known to log such a line."""
    text = f"{line.name}: {line.text.strip()}"
    return line_template(text) in _read_healthy_templates() or re.search(_HARMLESS, text) is not None


@cache
def _read_healthy_templates() -> frozenset[str]:
    data = get_data("service_record.diagnosis", "rules/healthy_lines.txt")
    assert data is not None  # noqa: S101  # it is in the package
    return frozenset(line for line in data.decode().splitlines() if line and not line.startswith("#"))


_HARMLESS: Final = r"""(?xia)
      avc: \s+ denied | apparmor="DENIED" | ACPI \s (?:BIOS \s)? (?:Error|Warning|Exception) | \[Firmware \s (?:Bug|Warn)
    | (?:RETBleed|Spectre|MDS|MMIO|Meltdown|L1TF|VMSCAPE) | Direct \s firmware \s load | regulatory | i8042 | \b(?:fd0|floppy)\b
    | I/O \s error, \s dev \s (?:fd|sr)\d | on \s dev \s (?:fd|sr)\d | Corrected \s error | corrected \s by | \bEDAC \s MC\d: \s \d+ \s CE
    | device \s descriptor \s read | not \s accepting \s address | hub_ext_port_status | Assuming \s drive \s cache
    | module \s verification \s failed | tainting \s kernel | GPT: | missing \s or \s invalid \s SUBNQN
    | ^ (?:sshd|ssh|su|sudo|login|gdm|gnome|gkr-pam|pulseaudio|wpa_supplicant|ftpd|telnetd|klogind|xinetd|named|snmpd) [^:]* : .*
      (?:authentication|kex|invalid \s user|failed \s password|connection|unknown|failure|illegal|could \s not \s load \s host \s key|lookup|unsupported|error)
    | Failed \s to \s look \s up \s module \s alias | Unknown \s (?:lvalue|key \s name|section) .* ignoring | ignoring\.? $
    | TLS \s handshake \s error | NetworkPluginNotReady | no \s networks \s found \s in | Error \s getting \s node
    | Unable \s to \s register \s node | failed \s to \s list \s \*v | failed \s to \s watch \s \*v | Failed \s to \s create .* already \s exists
    | dbus- (?:broker|daemon) [^:]*: .* (?:Activation|Ignoring|Invalid) | systemd-udevd | uncleanly \s shut \s down | NXDOMAIN
    | mitigating | fallback | deprecated | DVE-2018 | no \s container \s with | Timed \s out \s waiting \s for \s reply
    | \bAH00558:                                    # Apache without ServerName
    | sshd .{0,40} error: \s Bind \s to \s port
    | libgpg-error | error-report | panic=\d | crashkernel | collector \s (?:initialized|started) | --\w*(?:fail|error)
    | ERST: | HEST: | RAS: | BERT: | errors=\w+-?\w* | failed=0 | PCIe \s Bus \s Error: \s severity=Corrected
    | scrubbed | cleanfsync | \bnscd\b | hid-generic | \bPNP0 | Bluetooth | iwlwifi | nouveau | snd_
"""
"""Lines that healthy hosts log: kernel messages at boot, SSH scanners, programs that wait for each other."""


LEAST_POINTER: Final = 4.5
"""A likely cause scores more than this. A labelled error without any relation to the failure scores 4."""
LEAST_IN_FRAGMENT: Final = 3.4
"""The least score of a line that a rule knows, in a fragment of a log. A known warning scores 3.5."""
LEAST_ELSEWHERE: Final = 6.0
"""The least score of another program's line. An unrelated error close to the failure in time scores 5.5."""
_OWN_LINE_SCORE: Final = 4.5
"""The score for the writer and the time of an own line, as `_score_closeness` returns it."""
_RULE_BONUS: Final = 1.5
"""Added to the score of a line that a rule knows."""
_DOUBT_SCORES: Final = {HAS_PASSED: -2.0, ABOUT_ANOTHER_UNIT: -2.0}
"""Added in place of the bonus if the line is unlikely to belong to the failure. `unless` of a rule lowers no
score: a lost lease of one interface is still likely beside the address of another."""
_FACT_SCORE: Final = 5.0
_UNNAMED_UNIT_SCORE: Final = 5.0
"""The least score of a known line from the time of the run, if the log does not name its unit."""
LEAST_IN_FRAGMENT_SHOWN: Final = -2.0
"""A line that only reports the failure of a part scores more than this; a line of healthy hosts, less."""
LEAST_UNEXPLAINED: Final = 6.5
"""The least score of an error line that is listed in addition to a certain cause."""


def find_likely_cause(
    failure: FailureContext,
    telling: QuotedLine | None,
    known: KnownCause | None,
    doubtful: Sequence[KnownCause],
    ranked: Sequence[RankedLine],
    *,
    is_fragment: bool = False,
) -> KnownCause | None:
    """Return the most likely cause of a failure; None if no candidate scores enough.

    A line of another program is a candidate only if something connects it with the failure. `telling` is the
    telling line of the service. `known` is the symptom, form of death or contributing cause that a rule found.
    In a fragment of a log, in which no service is known to have failed, only lines that a rule knows count.
    """
    best_score, best = LEAST_IN_FRAGMENT if is_fragment else LEAST_POINTER, None
    known_line = known.line if known is not None else None
    for score, cause in _score_candidates(failure, telling, doubtful, ranked):
        counts = cause.is_of_rule or not (is_fragment or cause.line == known_line)
        if score > best_score and counts:
            best_score, best = score, cause
    if best is None or known is None:
        return best
    is_contributing = known.rank == "contributing"
    intro = "It may contribute that" if is_contributing else "The service itself shows a symptom only:"
    return replace(best, explains=f"{intro} {known.says}. {best.explains or ''}".strip())


def _score_candidates(
    failure: FailureContext,
    telling: QuotedLine | None,
    doubtful: Sequence[KnownCause],
    ranked: Sequence[RankedLine],
) -> Iterator[tuple[float, KnownCause]]:
    """Yield each candidate for the likely cause of a failure with its score."""
    scores = {one.text: one.score for one in ranked}
    uncounted = {one.text: one.uncounted for one in ranked}
    told = "" if telling is None else telling.line.strip()
    if telling is not None and not is_shallow(told, failure.weigh(told)):
        score = scores.get(told, score_text(told, failure.weigh(told)) + _OWN_LINE_SCORE)
        yield score, _make_cause_of_line(OWN_ERROR, telling.line, telling.place or None, "")
    for cause in doubtful:
        if cause.line is None or cause.doubt == UNCONNECTED:
            continue
        bonus = _DOUBT_SCORES.get(cause.doubt or "", _RULE_BONUS)
        if cause.place is not None and cause.of is None:  # a fact, which has no writer and no time
            yield _FACT_SCORE + min(bonus, 0.0), cause
            continue
        # A rule that names the source of its line connects them, so nearness counts.
        text = cause.line.strip()
        score = scores.get(text, score_text(text, failure.weigh(text))) + uncounted.get(text, 0.0)
        if cause.doubt == OF_UNNAMED_UNIT:
            yield max(score + _RULE_BONUS, _UNNAMED_UNIT_SCORE), cause
        elif cause.doubt != MAY_HAVE_PASSED or score >= LEAST_ELSEWHERE:
            yield score + bonus, cause
    specific = (one for one in ranked if not one.is_shallow and not _is_healthy_line(one.line))
    best = next((one for one in specific if failure.connects(one.line)), None)
    if best is not None and is_own_line(best.line, failure.service):
        yield best.score, _make_cause_of_line(OWN_ERROR, best.text, str(best.line.place), "")
    elif best is not None and best.score >= LEAST_ELSEWHERE:
        yield best.score, _make_cause_of_line(OTHER_ERROR, best.text, str(best.line.place), best.line.name)


def _make_cause_of_line(name: str, line: str, place: str | None, by: str) -> KnownCause:
    where = f" of {by}" if by else ""
    return KnownCause(
        name=name,
        says=f"{by}: {line}" if by else line,
        explains=f"No rule knows this line{where}. It stands out most; read the lines around it.",
        rank=POINTS_TO,
        doubt="no rule knows the line",
        line=line,
        place=place,
        of=by or None,
    )


def choose_lines(
    ranked: Sequence[RankedLine],
    cause: KnownCause | None,
    telling: QuotedLine | None,
    *,
    explained: Collection[str] = (),
    has_failed: bool,
    is_fragment: bool = False,
) -> tuple[RankedLine, ...]:
    """Return the lines that stand out and are not shown elsewhere on the page.

    `explained` are the lines that prove the causes of other failures, which the page shows with them.

    In addition to a certain cause, only lines with a high score are shown. Without a failure no line gets
    points for being near one, so the limit is lower. In a fragment of a log, weak lines are better than none.
    """
    shown = {line.strip() for line in explained}
    if cause is not None and cause.line is not None:
        shown.add(cause.line.strip())
    if telling is not None:
        shown.add(telling.line.strip())
    rest = [one for one in ranked if one.text not in shown]
    if cause is not None and cause.is_cause:
        least = LEAST_UNEXPLAINED if has_failed else LEAST_UNEXPLAINED - NEAR_IN_TIME
        rest = [one for one in rest if one.score >= least and not one.is_shallow]
    shown_lines = choose_best(rest)
    if not shown_lines and cause is None and is_fragment:
        return choose_best(rest, LEAST_IN_FRAGMENT_SHOWN)
    return shown_lines
