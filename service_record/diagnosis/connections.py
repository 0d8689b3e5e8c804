"""Decide whether a line of another program can belong to the failure of a service. Pure.

Many daemons of a host log errors while a service fails. Nearness in time does not connect them: a line
of the journal belongs to the failure only if the unit, a name or a thing in both lines shows it.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Final

import msgspec

from service_record.diagnosis.evidence.error_lines import LineWeight, weigh_lines, weight
from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.evidence.log_lines import JOURNAL, LogLine, is_own_line, program_names
from service_record.diagnosis.evidence.named_things import find_device, normalize_device
from service_record.diagnosis.findings import TroubleFacts

_THING: Final = r"""(?xa)
      (?<![\w/]) (?: /[\w.+@:-]*\w ){2,}                                # a path, but no single directory
    | \b \d{1,3} (?: \.\d{1,3} ){3} (?: :\d{2,5} )? \b                  # an address, and perhaps a port
    | (?<![\w./-]) [a-zA-Z0-9-]+ (?: \.[a-zA-Z0-9-]+ )* \.[a-zA-Z]{2,} (?: :\d{2,5} )? (?![\w./-])    # a host
    | (?<![\w/]) (?: (?:sd|vd|xvd)[a-z]+ | nvme\d+n\d+ | dm- | md ) p?\d* \b
    """
_EVERYWHERE: Final = (
    r"127\.\d+\.\d+\.\d+|0\.0\.0\.0|(?:/usr)?(?:/local)?/s?bin/.*|/dev/(?:null|tty\w*|std\w+)"
)
"""Things that lines name without being about the same problem."""


CLOCK_SLACK: Final = timedelta(seconds=2)
"""Tolerance between the times of a record and those of the journal."""
_OF_HOST: Final = frozenset({"boot", "kernel"})
"""Failures of the whole host, which consoles and journals show: the emergency shell, a panic."""


class FailureContext(msgspec.Struct, frozen=True, dict=True):
    """A service in trouble, the start and end of its run, and its own lines.

    `make_failure_context` makes it; times are true times, which the clock of a record may be ahead of.
    """

    service: str
    started: datetime | None = None
    ended: datetime | None = None
    meanwhile: tuple[LogLine, ...] = ()
    """Lines that the service's programs probably logged (see `Evidence.meanwhile`)."""
    lines: tuple[LogLine, ...] = ()
    """The lines of the run, latest first: of the service, then of its programs (`meanwhile`)."""
    message: str = ""
    """The last lines of the service in its record."""
    device: str = ""
    """The device that the failed unit needs; empty if it needs none, or if it is not known."""

    def connects(self, line: LogLine) -> bool:
        """Return True if a line can belong to the failure.

        The kernel, systemd, containers and installers log about the whole host or job. A daemon logs about
        itself: its line counts if one of both names the other, or if both name the same thing.
        """
        if line.kind != JOURNAL or self.service in _OF_HOST:
            return True
        if is_own_line(line, self.service) or line in self.meanwhile:
            return True
        if not line.unit and _have_a_word_in_common(line.name, self.service):
            return True  # `kubeadm` and `kubeadm-join`: without units, its own program may log so
        if any(_is_named(name, line.text) for name in program_names(self.service)):
            return True
        if any(_is_named(name, self.own_text) for name in {line.name, line.unit} if name):
            return True
        return not self._things.isdisjoint(find_things(line.text))

    def weigh(self, text: str) -> LineWeight:
        """Return the weight of a line, which for an own line depends on the lines before it."""
        return self._weights.get(text) or weight(text)

    @cached_property
    def _weights(self) -> Mapping[str, LineWeight]:
        """Return text -> weight of the own lines. A heading is about lines of its program."""
        texts: dict[str, list[str]] = {"": self.message.splitlines()}
        for line in reversed(self.lines):
            texts.setdefault(line.name, []).append(line.text)
        weighed = (one for lines in texts.values() for one in weigh_lines(map(str.strip, lines)))
        return {text: own for own, text in sorted(weighed)}

    @cached_property
    def own_text(self) -> str:
        """Return the message of the failure and the other lines of the run."""
        return "\n".join([self.device, self.message, *(line.text for line in self.lines)])

    @cached_property
    def _things(self) -> frozenset[str]:
        return find_things(self.own_text)


def _have_a_word_in_common(name: str, other: str) -> bool:
    words, others = (set(re.findall(r"[a-z0-9]{3,}", one.lower())) for one in (name, other))
    return bool(words & others - {"systemd"})


def _is_named(name: str, text: str) -> bool:
    if name.lower() not in text.lower():
        return False  # the usual case, much faster than a search with a pattern
    return re.search(rf"(?i)(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


@lru_cache(4096)  # the lines of a host are compared with each failure
def find_things(text: str) -> frozenset[str]:
    """Return the paths, addresses, host names and devices in a text, without those that mean little."""
    found = (match[0].lower() for match in re.finditer(_THING, text))
    return frozenset(normalize_device(one) for one in found if re.fullmatch(_EVERYWHERE, one) is None)


def make_failure_context(trouble: TroubleFacts, evidence: Evidence) -> FailureContext:
    """Return the context of a trouble: what the files of the host show about its run."""
    meanwhile = evidence.meanwhile.get(trouble.service, ())
    first = trouble.run_started and trouble.run_started - CLOCK_SLACK
    last = trouble.ended and trouble.ended + CLOCK_SLACK
    lines = (*meanwhile, *evidence.own.get(trouble.service, ()))
    return FailureContext(
        trouble.service,
        trouble.run_started,
        trouble.ended,
        meanwhile,
        tuple(line for line in reversed(lines) if is_between(line.time, first, last)),
        trouble.facts.message or "",
        find_device(trouble.service, evidence.facts),
    )


def is_between(time: datetime | None, first: datetime | None, last: datetime | None) -> bool:
    """Return True if a time is within the limits. An unknown time or limit (None) never excludes it."""
    if time is None:
        return True
    return (first is None or first <= time) and (last is None or time <= last)
