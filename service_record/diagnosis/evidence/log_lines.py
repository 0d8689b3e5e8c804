"""Lines of logs with their place: when, by whom and about what, in whatever form they are written. Pure."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from service_record.diagnosis.evidence.streams import AGENT, CONTAINERS, JOURNAL, KERNEL, SYSTEMD, LogStream


class LinePlace(msgspec.Struct, frozen=True, order=True):
    """Where something stands: a file of the source, and the line in it, from 1."""

    path: str
    line: int | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log, without what stands before the message."""

    place: LinePlace
    kind: str
    """One of the kinds of streams: a line of the kernel in the journal is the kernel's."""
    name: str
    """Of the program or container that wrote it."""
    text: str
    time: datetime | None = None
    """None where it has no time that can be believed."""
    pid: int | None = None
    host: str = ""
    is_earlier_boot: bool = False

    @property
    def is_told_twice_by(self) -> tuple[datetime | None, str, str]:
        """Return what is the same of a line in two files: the journal of a unit, and that of all units."""
        return self.time, self.name, self.text


_JOURNAL: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) "
    r"(?P<host>\S+) (?P<name>[^\s:\[\]]+)(?:\[(?P<pid>\d+)\])?: (?P<text>.*)",
    re.DOTALL,
)
_CRI: Final = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\S+) std(?:out|err) [FP] (?P<text>.*)", re.DOTALL)
_KLOG: Final = re.compile(r"[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)\s")
_STAMP: Final = re.compile(
    r'(?:^|[\s\["=:])(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)'
)
_STAMP_WITHIN: Final = 64
_FAR: Final = timedelta(days=1)
_AGENT_PROGRAMS: Final = frozenset({"agent", "next_step_runner", "assisted-installer", "installer"})


class Era(msgspec.Struct, frozen=True):
    """The times that lines of a host can have: those of its records, and a day around them."""

    first: datetime | None = None
    last: datetime | None = None

    def plausible(self, time: datetime | None) -> datetime | None:
        """Return a time that this host can have had; None for one that its clock never showed."""
        if time is None or self.first is None or self.last is None:
            return time
        return time if self.first - _FAR <= time <= self.last + _FAR else None

    def with_year(self, text: str) -> datetime | None:
        """Return the time of a line that does not tell its year: `Nov 25 13:00:01`."""
        year = (self.last or datetime(2000, 1, 1, tzinfo=UTC)).year
        form = "%Y %b %d %H:%M:%S.%f" if "." in text else "%Y %b %d %H:%M:%S"
        try:
            return datetime.strptime(f"{year} {text}", form).replace(tzinfo=UTC)
        except ValueError:
            return None


def log_line(stream: LogStream, number: int, raw: bytes, era: Era) -> LogLine:
    """Return a line of a stream, taken apart."""
    text = raw.decode(errors="replace").rstrip("\r\n")
    place = LinePlace(stream.path, number)
    kind, name, pid, time = stream.kind, stream.name, None, None
    if (match := _JOURNAL.match(text)) is not None:
        text, name = match["text"], match["name"]
        pid = int(match["pid"]) if match["pid"] else None
        time = _parsed(match["time"]) if match["time"][0].isdigit() else era.with_year(match["time"])
        kind = _kind_in_journal(stream.kind, name)
    elif (match := _CRI.match(text)) is not None:
        text, time = match["text"], _parsed(match["time"])
    else:
        time = _own_time(text, era)
    return LogLine(
        place=place,
        kind=kind,
        name=name,
        text=text,
        time=era.plausible(time),
        pid=pid,
        host=stream.host,
        is_earlier_boot=stream.is_earlier_boot,
    )


def _kind_in_journal(kind: str, name: str) -> str:
    if name == "kernel":
        return KERNEL
    if name == "systemd":
        return SYSTEMD
    if name in _AGENT_PROGRAMS:
        return AGENT
    return JOURNAL if kind in {KERNEL, SYSTEMD} else kind


def _own_time(text: str, era: Era) -> datetime | None:
    """Return the time that a program itself writes at the beginning of its lines."""
    if (match := _KLOG.match(text)) is not None and era.last is not None:
        return _parsed(f"{era.last.year}-{match['month']}-{match['day']}T{match['clock']}Z")
    stamp = _STAMP.search(text[:_STAMP_WITHIN])
    return _parsed(stamp["stamp"]) if stamp else None


def _parsed(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def is_of(line: LogLine, where: str) -> bool:
    """Return whether a line is where a rule looks: `kernel`, `unit:NAME`, `container:NAME`, `any`."""
    if where == "any":
        return True
    if where.startswith("unit:"):
        return line.name == where[5:] and line.kind != CONTAINERS
    if where.startswith("container:"):
        return line.kind == CONTAINERS and where[10:] in line.name
    if where == JOURNAL:
        return line.kind in {JOURNAL, KERNEL, SYSTEMD, AGENT}
    return line.kind == where
