"""The value in which `scan` collects the evidence in the files of a host. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from service_record.diagnosis.evidence.error_lines import NotableLine
from service_record.diagnosis.evidence.facts import KnownFacts
from service_record.diagnosis.evidence.log_lines import LogLine
from service_record.diagnosis.evidence.unit_logs import UnitLog


class Looked(msgspec.Struct, frozen=True):
    """How much was read besides the records."""

    files: int = 0
    lines: int = 0
    kinds: frozenset[str] = frozenset()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found in the files of a host besides its records."""

    lines: Mapping[int, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Number of a line test -> the lines that match it, earliest first."""
    own: Mapping[str, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Service -> the lines that it logged itself, earliest first."""
    meanwhile: Mapping[str, tuple[LogLine, ...]] = msgspec.field(default_factory=dict)
    """Service -> the lines of other programs during its failed runs, in a journal without units. The service
    probably ran these programs."""
    started: frozenset[str] = frozenset()
    """The services that systemd logged as starting or started, if it names units: since version 249."""
    ends: Mapping[str, tuple[int, LogLine | None]] = msgspec.field(default_factory=dict)
    """File -> its number of lines, and its last line."""
    facts: KnownFacts = msgspec.field(default_factory=KnownFacts)
    paths: frozenset[str] = frozenset()
    """The files of the host that a copy of its directories has: `/etc/fstab`."""
    programs: frozenset[str] = frozenset()
    """The programs that log, and the units with their own journal file."""
    unit_logs: Mapping[str, UnitLog] = msgspec.field(default_factory=dict)
    """Unit -> what systemd logged about it."""
    looked: Looked = msgspec.field(default_factory=Looked)
    has_systemd: bool = False
    """True if lines of systemd about units were read, which show the failed units."""
    has_unit_listing: bool = False
    """True if a file lists the failed units."""
    notable: tuple[NotableLine, ...] = ()
    """Error lines, one of each kind."""

    @property
    def is_of_host(self) -> bool:
        """Return True if any line or fact was read."""
        return bool(self.facts.values) or bool(self.looked.kinds)

    def lines_behind(self, line: LogLine) -> tuple[int, int]:
        """Return the number of lines after a line in its file, and the number of lines in the file."""
        count, _ = self.ends.get(line.place.path, (0, None))
        return count - (line.place.line or 0), count

    def last_time(self, line: LogLine) -> datetime | None:
        """Return the time of the last line in the file of a line; None if it has no time."""
        _, last = self.ends.get(line.place.path, (0, None))
        return last.time if last is not None else None


NO_EVIDENCE: Final = Evidence()
