"""Recognise error lines, weigh how much each says, and collect one line of each kind. Pure.

Patterns are plain strings: `re` compiles each on first use, and most hosts need only a few of them.
"""
# ruff: noqa: E501  # a list of words is easier to read in long lines

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from operator import itemgetter
from typing import Final

import msgspec

from service_record.diagnosis.evidence.line_patterns import Pattern
from service_record.diagnosis.evidence.log_lines import LogLine, LogStream

_MAX_LINE_BYTES: Final = 4096
_MAX_TEMPLATES: Final = 4000
"""The most kinds of lines that are returned for all files together."""
_MAX_OF_FILE: Final = 600
"""The most kinds of lines that are kept for one file."""
_EXPLANATION: Final = ("░░ ".encode(), b"-- ")
"""The beginnings of the lines in which `journalctl -x` explains a message."""
NOTABLE: Final = -1
"""The number of the test for these lines in a `LineSet`."""
_ERROR_WORDS: Final = (
    "error",
    "fatal",
    "fail",
    "panic",
    "denied",
    "refuse",
    "cannot",
    "can't",
    "could not",
    "couldn't",
    "unable",
    "no such",
    "not found",
    "timed out",
    "timeout",
    "time-out",
    "invalid",
    "unauthorized",
    "unauthorised",
    "forbidden",
    "no space",
    "not enough",
    "killed",
    "not permitted",
    "not allowed",
    "unreachable",
    "exception",
    "expired",
    "oops",
    "bug: ",
    "corrupt",
    "reject",
    "duplicate",
    "not supported",
    "unsupported",
    "missing",
    "does not exist",
    "doesn't exist",
    "conflict",
    "cant find",
    "malformed",
    "critical",
    "mismatch",
    "unknown",
    "illegal",
    "segfault",
    "segmentation fault",
    "violat",
    "broken",
    "exceed",
    "out of memory",
    "in use",
    "held by",
    "substitution",
    "bad ",
    "wrong",
    "incorrect",
    "not available",
    "not valid",
    "unexpected",
    "must not",
    "must be ",
    "abort",
    "not known",
    "unrecogni",
)
"""Lower-case words that mark an error line."""
_WEAK_WORDS: Final = (
    *("too quickly", "deleted to break", "command: [", "must ", "did not", "not a ", "warning"),
)
"""Words of lines that are collected as well, although most of them report no error."""
_PHRASE: Final = r"no \S+ (?:\S+ )?available"


def list_notable_patterns() -> Iterator[tuple[int, Pattern]]:
    """Yield the patterns of error lines, numbered NOTABLE."""
    for word in _ERROR_WORDS + _WEAK_WORDS:
        yield NOTABLE, Pattern(re.escape(word), needles=(word,), is_word=True)
    yield NOTABLE, Pattern(_PHRASE, needles=(" available",))
    yield NOTABLE, Pattern(r" - not \w+ing\b", needles=(" - not ",))


_DIGITS: Final = b"0123456789abcdefx"
"""Characters of numbers and identifiers. Lines that differ only in them have the same key.

`bytes.translate` deletes them; `re.sub` would take ten times as long.
"""
_KEY_BYTES: Final = 220


class NotableLine(msgspec.Struct, frozen=True):
    """An error line, and how often lines of its kind occur in the file."""

    line: LogLine
    """The last line of the kind in the file."""
    count: int
    template: str
    last_time: datetime | None = None


class _Kind:
    __slots__ = ("count", "number", "raw")

    def __init__(self, number: int, raw: bytes) -> None:
        self.count, self.number, self.raw = 0, number, raw


class NotableLines:
    """Collects error lines by kind: the line without its numbers."""

    def __init__(self) -> None:
        self._kinds: dict[LogStream, dict[bytes, _Kind]] = {}

    def add(self, stream: LogStream, number: int, raw: bytes) -> None:
        """Add a line that has one of the patterns. The explanations of `journalctl -x` are left out."""
        if raw.startswith(_EXPLANATION):
            return
        kinds = self._kinds.setdefault(stream, {})
        key = raw[:_KEY_BYTES].translate(None, _DIGITS)
        kind = kinds.get(key)
        if kind is None:
            if len(kinds) >= _MAX_OF_FILE:
                # The latest lines matter most: drop the kind that was not seen for the longest time.
                del kinds[next(iter(kinds))]
            kind = kinds[key] = _Kind(number, raw[:_MAX_LINE_BYTES])
        elif kind.number != number:
            kind.number, kind.raw = number, raw[:_MAX_LINE_BYTES]
        kind.count += 1

    def lines(self, log_line: Callable[[LogStream, int, bytes], LogLine]) -> Iterator[NotableLine]:
        """Yield the last line of each kind, parsed by `log_line`."""
        left = _MAX_TEMPLATES
        seen: set[tuple[str, str, float | None]] = set()
        for stream, kinds in self._kinds.items():
            for kind in kinds.values():
                line = log_line(stream, kind.number, kind.raw)
                # The journal file of a unit repeats lines of the whole journal.
                identity = line.name, line.text, line.time.timestamp() if line.time else None
                if identity in seen or left <= 0:
                    continue
                seen.add(identity)
                left -= 1
                yield NotableLine(
                    line, kind.count, line_template(f"{line.name}: {line.text.strip()}"), line.time
                )


_QUOTED: Final = r"""(?xa) \\?"[^"\s]{0,200}" | '[^'\s]{0,200}' | (?:/[\w.+@:~-]+)+/? | \b[0-9a-f]{7,}\b | (?:\d+[.:/-]?)+"""


def line_template(text: str) -> str:
    """Return the line with `#` for numbers, paths and quoted names, which differ from host to host."""
    return re.sub(r"#[#\s]*#|#", "#", re.sub(_QUOTED, "#", text[:400].lower()))[:120]


_ERROR_LABELS: Final = r"""(?xia)
      (?:^|[\s"'\]:]) (?:error|fatal|panic) (?:\[[^\]]{0,40}\]|\([^)]{0,40}\))? :   # Error: ..., fatal: ...
    | \b (?:level|lvl|severity) [=:] \s? "? (?:error|fatal|panic|crit)             # logfmt, JSON
    | ^ [EF] \d{4} \s \d\d:\d\d:\d\d                                              # klog
    | ^ (?:ERROR|FATAL|CRITICAL|PANIC) \b | ^ \[ (?:alert|emerg|crit|critical|error|fatal) \]
    | ^ [\d:,\s-]{8,24} (?:ERR|ERROR|CRT|CRITICAL) \s                              # Anaconda, subiquity
    | (?:^|[\s:]) [a-z_][\w.]{0,100} (?:Error|Exception) : \s                       # the end of a traceback
    | (?-i: ^ E: \s \S)                                                            # apt
    | ^ @ERROR : \s                                                               # rsync
    """
"""Labels by which programs mark an error line."""


_EMPTY_LABEL: Final = r"(?i)(?:[\w.-]{1,40}: )?(?:error|fatal|panic):?"
"""A label without a reason: the line after it has it."""

_BANNER: Final = r"([*=#!~-])\1{2,}\s*(?=\w).*?(?:fatal|error|fail).*?\1{2,}"
"""A banner, `*** FATAL CONFIG FILE ERROR ***`: the lines below it say what is wrong."""
_MOST_BELOW_BANNER: Final = 4
"""A banner is about at most this many lines: up to the first with the words of an error, which counts."""
_CAUSED_BY: Final = r"(?i)caused by:"
_AFTERMATH: Final = r"""(?xia)(?:[^\s:]{1,40}:\s)? (?:re-?try(?:ing)?|will\s(?:re-?)?try|try(?:ing)?\sagain
        |waiting|sleeping|backing\soff|log\sbundle|gathering|collecting|cleaning|exiting|see\s|for\smore|use\s|hint\b|note\b)"""
"""The beginnings of lines about retries and clean-up after a failure."""


_ASIDES: Final = r"""(?xia)
      ^ goroutine \s \d+ | ^ \S+\.go:\d+ \s \+0x | ^ (?:main|runtime)\.[\w.*()]+\(      # frames of Go
    | ^ File \s "[^"]*", \s line \s \d+ | \b Traceback \s \(most \s recent
    | (?:^|:\s{2,}) raise \s [\w.]+\( | ^ at \s [\w.$<>]+\( | ^ \#\d+ \s+ 0x
    | ^ \d+: \s+ 0x[0-9a-f]+ \s - | ^ stack \s backtrace: | ^ note: \s run \s with
    | ^ Usage: | ^ -{1,2} \w [\w-]* ,? \s | ^ (?:Available\sCommands|Flags|Options|Examples): | --help\b
    | stack \s trace \s of \s this \s error | execute \s with \s --v= | make \s a \s check \s non-fatal
    | ^ [,:]? \s? (?:error: \s)? exit \s (?:status|code) \s \d+ \.? $
    | Failed \s to \s (?:run|spawn) \s 'stop-post' \s task
    """
"""Usage texts, stack frames, hints and bare exit statuses: they never name a problem.

Nor does the failure of a task that runs after the end of a service. Our own drop-in adds such a task to each.
"""


_SYSTEMD_LINES: Final = r"""(?xa)
      ^ (?:systemd\[\d+\]: \s)? [\w:.\\@-]{1,200}
        \.(?:service|socket|mount|swap|device|timer|path|slice|scope|target): \s
        (?: (?:Main|Control) \s process \s exited | Failed \s with \s result | Consumed \s
          | Scheduled \s restart | Unit \s entered \s failed
          | Deactivated | Succeeded | Service \s \S+ \s expired )
    | ^ (?:systemd\[\d+\]: \s)?
        (?: Failed \s to \s start | Dependency \s failed \s for | Start(?:ed|ing) | Stopp(?:ed|ing)
          | Finished ) \s [^:]{1,200} \. $
    | ^ (?:systemd\[\d+\]: \s)? Unit \s \S{1,200} \s entered \s failed \s state
    """
"""Lines of systemd about the end of a unit. Lines of its program say more."""


_WRAPPERS: Final = r"""(?xia)
      Start \s request \s repeated \s too \s quickly                                        # systemd
    | \b Failed \s to \s (?:run|spawn) \s '[a-z-]+' \s task
    | \b (?:Failed \s to \s run | Running) \s (?:module \s)? [\w-]+ \s \( .{0,400} \) (?:\s failed)? $
    | \b Failed \s running \s /\S+ \s \[-?\d+\] $                                        # cloud-init
    | unexpected \s error \s while \s running \s command | ^ finish: \s .{1,200} : \s FAIL: \s   # curtin
    | ^ E: \s Sub-process \s \S+ \s returned \s an \s error                                    # apt
    | ^ E: \s Some \s index \s files \s failed
    | subprocess \s returned \s error \s exit \s status | ^ Errors \s were \s encountered \s while  # dpkg
    | returned \s non-zero \s exit \s status
    | \[ \s{0,3} FAILED \s{0,3} \] $                                                # scripts of SysV init
    | \b failed \s with \s \[-?\d{1,5}\] $                                               # launchers of Java
    | ^ (?:Error: \s)? (?:Could \s not \s create \s the \s Java \s Virtual \s Machine
        | A \s fatal \s exception \s has \s occurred\. \s Program \s will \s exit) \.? $
    | \b error \s starting \s some \s container                                          # podman
    | \b (?: start-?up | initiali[sz]ation | start | boot | test ) \s (?: has \s )? (?: failed | failure ) [.!]? $
    | \b (?: could \s not | failed \s to | unable \s to ) \s (?: start | initiali[sz]e | boot )
      (?: \s (?: the \s )? [\w.-]+ )? [.!]? $
    | (?: exited | failed ) \s with \s (?:an \s)? (?:error|exit|status|code|return) (?:\s(?:code|status))?
        [:=]? \s? \d+ \W* $
    """
"""Lines of a caller that only report a failed part. The line of the part itself says more."""


_IGNORED: Final = r", (?:ignoring|skipping)(?:: |\.?$)"
"""The form in which systemd and others log an error that they ignore: `…, skipping: No such file or directory`."""

_OTHER_ERRORS: Final = r"""(?xia)
      ^ (?:stdout|stderr): \s* (?!['\"]{2}) [^\s-]  # curtin and cloud-init pass on the output of a command
    | ^ command: \s \[
    | \s [-\u2013\u2014] \s not \s \w+ing \b                                     # `… - not starting`
    | \b can'?t \s find \s | \b no \s (?:\S+ \s){1,3} (?:available|found)
    """


class LineWeight(IntEnum):
    """How much a line says about a problem, in rising order."""

    ASIDE = -1
    AFTERMATH = 0
    PLAIN = 1
    WRAPPER = 2
    """Reports a failed part without the reason."""
    ERROR = 3
    LABELLED = 4


_MAX_END_CHARACTERS: Final = 4096
"""Only this much of the beginning and of the end of a line is searched."""


_REASONS: Final = frozenset({LineWeight.PLAIN, LineWeight.ERROR, LineWeight.LABELLED})
"""Weights of lines that can give the reason which a heading announces."""


def telling_line(message: str | None) -> str | None:
    """Return the line of a message that most likely names the problem.

    This is the last line with the highest weight; see LineWeight. Returns None if the message has only
    asides, such as usage texts, stack frames and hints.
    """
    lines = [line.strip() for line in (message or "").splitlines() if line.strip()]
    best, line = max(weigh_lines(lines)[::-1], key=itemgetter(0), default=(LineWeight.ASIDE, None))
    return None if best is LineWeight.ASIDE else line


def weigh_lines(lines: Iterable[str]) -> list[tuple[LineWeight, str]]:
    """Return the lines of a program with their weights.

    The line below a heading weighs as much as a labelled line, because it says what the heading announces.
    """
    texts = list(lines)
    weights = [weight(text) for text in texts]
    weighed = weights.copy()
    for at, text in enumerate(texts):
        chosen = None
        for below in range(at + 1, min(at + 1 + _count_below(text, weights[at]), len(texts))):
            if weights[below] in _REASONS:
                chosen = below
            if weights[below] >= LineWeight.ERROR:
                break
        if chosen is not None:
            weighed[chosen] = LineWeight.LABELLED
    return list(zip(weighed, texts, strict=True))


def _count_below(text: str, own: LineWeight) -> int:
    """Return the number of lines that a heading may be about; 0 if the line is no heading.

    A heading is a banner, a label on its own (`Error:`), or an error that ends with a colon.
    """
    if re.fullmatch(_BANNER, text, re.IGNORECASE):
        return _MOST_BELOW_BANNER
    is_error = own >= LineWeight.ERROR or re.fullmatch(_CAUSED_BY, text)
    return 1 if (text.endswith(":") and is_error) or re.fullmatch(_EMPTY_LABEL, text) else 0


def is_labelled(line: str) -> bool:
    """Return True if a program labels the line as an error, and it is more than an exit status or a hint."""
    return weight(line.strip()) is LineWeight.LABELLED


@lru_cache(1024)  # the same lines are weighed for each failure of a host
def weight(line: str) -> LineWeight:
    """Return how much a line says about a problem. Only both ends of a very long line are searched."""
    if len(line) > 2 * _MAX_END_CHARACTERS:
        line = f"{line[:_MAX_END_CHARACTERS]} {line[-_MAX_END_CHARACTERS:]}"
    if re.search(_ASIDES, line):
        return LineWeight.ASIDE
    if re.fullmatch(_EMPTY_LABEL, line) or re.fullmatch(_BANNER, line, re.IGNORECASE):
        return LineWeight.AFTERMATH
    if re.search(_WRAPPERS, line):
        return LineWeight.WRAPPER
    if re.search(_ERROR_LABELS, line):
        return LineWeight.LABELLED
    if re.match(_AFTERMATH, line) or re.match(_SYSTEMD_LINES, line) or re.search(_IGNORED, line):
        return LineWeight.AFTERMATH
    lowered = line.lower()
    is_error = any(word in lowered for word in _ERROR_WORDS) or re.search(_OTHER_ERRORS, line) is not None
    return LineWeight.ERROR if is_error else LineWeight.PLAIN
