"""Files of a host and their lines. Pure.

The kind of a file is known by its path: in our bundles, OpenShift's, must-gather, sos. Of a line, its place
is known, and when, by whom and about what it was written, in whatever form.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

JOURNAL: Final = "journal"
KERNEL: Final = "kernel"
SYSTEMD: Final = "systemd"
CONTAINERS: Final = "containers"
AGENT: Final = "agent"
INSTALLER: Final = "installer"
FACTS: Final = "facts"
OTHER: Final = "other"
KINDS_OF_LINES: Final = frozenset({JOURNAL, KERNEL, SYSTEMD, CONTAINERS, AGENT, INSTALLER, OTHER})


class LogStream(msgspec.Struct, frozen=True):
    """What one file of a host holds."""

    path: str
    kind: str
    name: str = ""
    """Of the unit, container or fact that it is about."""
    host: str = ""
    """Of which other host of the cluster it is: an address or a name; empty for the host of the records."""
    is_earlier_boot: bool = False


_HOSTS: Final = re.compile(r"(?:^|/)(?:control-plane|nodes|hosts)/([0-9A-Za-z.:_-]+)/")
_RECORD: Final = re.compile(r"(.*?)(?:bootstrap/services|var/log/openshift)/[^/]+\.json", re.DOTALL)
_SKIPPED: Final = re.compile(
    r"(?:^|/)(?:bootstrap/services/|var/log/openshift/|unit-files?\.|packages\.txt|rpm-qa|units\.txt$)"
    r"|\.(?:json|ign|ya?ml|pem|crt|key|html|svg|png|jou?rnal|img|rpm|deb|service|conf\.d)(?:\.[a-z0-9]+)?$"
    r"|(?:^|/)(?:audit|secrets?)/",
)
_KINDS: Final = tuple(
    (kind, re.compile(pattern, re.VERBOSE))
    for kind, pattern in (
        (KERNEL, r"(?:^|/) (?: pstore/ | (?:kernel|dmesg|console|vmcore-dmesg)[^/]*$ )"),
        (
            AGENT,
            r"""(?:^|/) (?: agent/[^/]+$
              | (?:agent|assisted-installer|installer|next_step_runner|apply-host-config)[^/]*\.logs?$ )""",
        ),
        (
            INSTALLER,
            r"""(?:^|/) (?: (?:anaconda|cloud-init|curtin|subiquity|installer)/
              | (?:cloud-init|cloud-config|anaconda|packaging|program|storage|dnf|curtin|subiquity|install
                  |ignition|syslog|messages|autoinstall|ks-script|preseed|partman|dpkg)[^/]*?(?:\.log|\.txt|)$
              | apt/(?:term|history)[^/]*$ )""",
        ),
        (
            CONTAINERS,
            r"""(?:^|/) (?: (?:containers|pod-logs|pods|bootstrap-control-plane)/.*\.log$
              | logs/(?:current|previous)\.log$ )""",
        ),
        (
            JOURNAL,
            r"""(?:^|/) (?: (?:journals|unit-status|host_service_logs)/ | journalctl
              | journal[^/]*\.(?:logs?|txt)$ ) | _service\.log$""",
        ),
    )
)
_CONTAINER: Final = (
    re.compile(r"(?:^|/)pod-logs/[^/]+/([^/]+)/[^/]+$"),
    re.compile(r"/pods/[^/]+/([^/]+)/(?:[^/]+/)?logs/[^/]+$"),
    re.compile(r"/log/pods/[^/]+/([^/]+)/[^/]+$"),
    re.compile(
        r"(?:^|/)(?:containers|pods|bootstrap-control-plane)/(?:.*/)?([^/]+?)(?:-[0-9a-f]{4,64})?(?:\.inspect)?\.log$"
    ),
)
_RUN: Final = re.compile(r"(?:^|/)journals/invocations/([^/]+)-[0-9a-f]{32}\.log$")
"""The lines of one run, all of its service, whichever process wrote them."""
_SUFFIXES: Final = re.compile(r"(?:_service)?\.(?:logs?|txt)$|\.service(?:\.txt)?$")
_EARLIER: Final = re.compile(r"(?:^|/)boot-\d+\.log$|previous|(?:^|/)pstore/")
_FACTS: Final = re.compile(
    r"(?:^|/)(?P<name>resolv\.conf|nsswitch\.conf|hostname(?:\.txt)?|ip-addr(?:\.txt)?|ip-(?:6-)?route(?:\.txt)?|"
    r"ip_(?:-[a-z0-9_]+_)?(?:addr(?:ess)?|route)[^/]*|"
    r"kernel-command-line\.txt|cmdline|memory\.txt|meminfo|swaps(?:\.txt)?|modules(?:\.txt)?|lsblk(?:[-_][^/]*)?(?:\.txt)?|"
    r"df\.txt|df-inodes\.txt|findmnt\.txt|mounts(?:\.txt)?|chrony-tracking\.txt|chrony-sources\.txt|timedatectl(?:\.txt)?|"
    r"rpm-ostree\.txt|rpm-ostree_status|os-release(?:\.txt)?|boots\.txt|secure-boot\.txt|failed-units\.txt|"
    r"cluster-names\.txt|efibootmgr\.txt|cgroup\.txt|selinux\.txt|sestatus|certificates\.txt|crictl-images\.txt)$"
)


def home_of(path: str) -> str | None:
    """Return the folder of the host that a record lies in; None for a file that is no record."""
    match = _RECORD.fullmatch(path)
    return match[1] if match else None


def stream_of(path: str) -> LogStream | None:
    """Return what a file is; None for one that holds no evidence in lines or facts."""
    host = _HOSTS.search(path)
    other = host[1] if host else ""
    fact = _FACTS.search(path)
    if fact:
        return LogStream(path, FACTS, fact["name"], other)
    if _SKIPPED.search(path):
        return None
    kind = next((kind for kind, pattern in _KINDS if pattern.search(path)), OTHER)
    name = _SUFFIXES.sub("", path.rpartition("/")[2])
    if run := _RUN.search(path):
        name = run[1]
    elif kind == CONTAINERS:
        match = next(filter(None, (pattern.search(path) for pattern in _CONTAINER)), None)
        name = match[1] if match else name
    return LogStream(path, kind, name, other, _EARLIER.search(path) is not None)


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
