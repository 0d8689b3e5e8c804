"""Decide whether a line of another program can belong to the failure of a service. Pure.

Many daemons of a host log errors while a service fails. Nearness in time does not connect them: a line
of the journal belongs to the failure only if the unit, a name or a thing in both lines shows it.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Final

import msgspec

from service_record.diagnosis.evidence.log_lines import JOURNAL, LogLine, is_own_line, program_names
from service_record.diagnosis.evidence.named_things import normalize_device

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


_OF_HOST: Final = frozenset({"boot", "kernel"})
"""Failures of the whole host, which consoles and journals show: the emergency shell, a panic."""


class FailureContext(msgspec.Struct, frozen=True, dict=True):
    """A service in trouble, the start and end of its run, and its own lines."""

    service: str
    started: datetime | None = None
    ended: datetime | None = None
    meanwhile: tuple[LogLine, ...] = ()
    """Lines that the service's programs probably logged (see `Evidence.meanwhile`)."""
    own_text: str = ""
    """The message of the failure and the other lines of the run."""

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


def join_lines(message: str | None, lines: Iterable[LogLine]) -> str:
    """Return the message of a failure and the texts of other lines as one text."""
    return "\n".join([message or "", *(line.text for line in lines)])
