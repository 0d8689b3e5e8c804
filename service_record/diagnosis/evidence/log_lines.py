"""Files of a host and their lines. Pure.

The kind of a file is known by its path: in our bundles, OpenShift's, must-gather, sos. Of a line, its place
is known, and when, by whom and about what it was written, in whatever form.

Patterns are texts here: `re` compiles each when it is first searched for, and where there are no files, none.
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
    """The kind of a host's file."""

    path: str
    kind: str
    name: str = ""
    """Of the unit, container or fact that it is about."""
    host: str = ""
    """Of which other host of the cluster it is: an address or a name; empty for the host of the records."""
    is_earlier_boot: bool = False


_HOSTS: Final = r"(?:^|/)(?:control-plane|nodes|hosts)/([0-9A-Za-z.:_-]+)/"
_RECORD: Final = r"(?s)(.*?)(?:bootstrap/services|var/log/openshift)/[^/]+\.json"
_SKIPPED: Final = (
    r"(?:^|/)(?:bootstrap/services/|var/log/openshift/|unit-files?\.|packages\.txt|rpm-qa|units\.txt$)"
    r"|\.(?:json|ign|ya?ml|key|html|svg|png|jou?rnal|img|rpm|deb|service|conf\.d|pem|inspect|pyc?)"
    r"(?:\.[a-z0-9]+)?$"
    r"|(?:^|/)(?:audit|secrets?|sos_reports|sos_logs|version\.txt|list_units_files|coredump_exe_[^/]*)(?:/|$)"
)
_ROTATED: Final = r"(?:[.-]\d[\d.T-]*|\.old)?"
"""The endings of the name of a log that was put aside: `.1`, `-20260302`, `.20260302-101010`."""
_KINDS: Final = tuple(
    (kind, f"(?x){pattern}")
    for kind, pattern in (
        (
            KERNEL,
            rf"""(?:^|/) (?: pstore/ | (?:kernel|dmesg|console|vmcore-dmesg)[^/]*$ | kern\.log{_ROTATED}$ )
              | journalctl_[^/]*(?:--dmesg|_-k)[^/]*$""",
        ),
        (
            AGENT,
            rf"""(?:^|/) (?: agent/[^/]+$
              | (?:agent|assisted-installer|installer|next_step_runner|apply-host-config)
                [^/]*\.logs?{_ROTATED}$ )""",
        ),
        (
            CONTAINERS,
            rf"""(?:^|/) (?: (?:containers|pod-logs|pods|bootstrap-control-plane)/.*\.log{_ROTATED}$
              | logs/(?:current|previous|rotated[^/]*)(?:\.insecure)?\.log$
              | (?:crictl|podman|docker)_(?:-r_\S+_)?logs_[^/]+$ )""",
        ),
        (
            INSTALLER,
            rf"""(?:^|/) (?: (?:anaconda|cloud-init|curtin|subiquity|installer)/
              | (?:cloud-init|cloud-config|anaconda|packaging|program|storage|dnf|curtin|subiquity|install
                  |ignition|syslog|messages|autoinstall|ks-script|preseed|partman|dpkg)
                  [^/]*?(?:\.log|\.txt|){_ROTATED}$
              | apt/(?:term|history)[^/]*$ )""",
        ),
        (
            JOURNAL,
            r"""(?:^|/) (?: (?:journals|unit-status|host_service_logs)/ | journalctl
              | journal[^/]*(?:\.(?:logs?|txt|export)|_logs)$ ) | _service\.log$
              | (?:^|/)[^/]+_logs_[a-z-]+$""",  # must-gather's nodes: NODE_logs_kubelet
        ),
    )
)
_CONTAINER: Final = (
    r"(?:^|/)pod-logs/[^/]+/([^/]+)/[^/]+$",
    r"/pods/[^/]+/([^/]+)/(?:[^/]+/)?logs/[^/]+$",
    r"/log/pods/[^/]+/([^/]+)/[^/]+$",
    r"(?:crictl|podman|docker)_(?:-r_\S+_)?logs_(?:-t_)?([^/]+)$",
    r"(?:^|/)(?:containers|pods|bootstrap-control-plane)/(?:.*/)?([^/]+?)(?:-[0-9a-f]{4,64})?(?:\.inspect)?\.log$",
)
_RUN: Final = r"(?:^|/)journals/invocations/([^/]+)-[0-9a-f]{32}\.log$"
"""The lines of one run, all of its service, whichever process wrote them."""
_SUFFIXES: Final = r"(?:_service)?\.(?:logs?|txt)$|\.service(?:\.txt)?$"
_EARLIER: Final = r"(?:^|/)boot-\d+\.log$|previous(?!\.(?:insecure\.)?log$)|(?:^|/)pstore/"
"""Logs of an earlier run. The `previous.log` of a container is of the container's run before, in whatever
boot.
"""
_FACTS: Final = r"""(?x)(?:^|/) (?P<name>
      (?: resolv\.conf | nsswitch\.conf | hostname | hostnamectl(?:_status)?
        | cmdline | kernel-command-line | proc_cmdline | hardware-(?:vendor|model)
        | ip-addr | ip-(?:6-)?route | ipaddr | iproute | ip_(?:-[a-z0-9_]+_)?(?:addr(?:ess)?|route)[^/]*
        | memory | meminfo | swaps | modules | lsmod | lsblk(?:[-_][^/]*)?
        | df | df-inodes | df_-al[^/]* | findmnt | mounts | mtab
        | chrony-(?:tracking|sources) | chronyc_(?:-n_)?(?:tracking|sources) | timedatectl(?:_status)?
        | rpm-ostree | rpm-ostree/status | rpm-ostree_status[^/]* | os-release
        | boots | journalctl_[^/]*--list-boots | secure-boot | mokutil_--sb-state | efibootmgr(?:_-v)?
        | failed-units | list_units | systemctl_list-units(?:_--(?:all|failed))?
        | cluster-names | cgroup | selinux | sestatus(?:_-b)? | crictl[-_]images
        | cleanfsynctest\.log
      ) (?:\.txt)?
    | [^/]+\.crt | (?:certificates|pki|tls)/(?:[^/]+/)?[^/]+\.pem ) $"""


_PRIVATE: Final = r"(?:^|/)(?:secrets?|private)/|(?:^|/)services/[^/]*\.json$"
_LAYOUT: Final = (
    r"(?:^|(?<=/))(?:bootstrap/(?:journals|network|storage|system|containers|pods|pod-logs|services|agent|installer|rpm-ostree)/"
    r"|(?:sos_commands|etc|proc|run|sys|usr|var|unit-status|rendered-assets|resources|rpm-ostree)/"
    r"|[^/]+$)"
)


def top_of(path: str) -> str:
    """Return the folder in which the gathering of one host lies, by a path in it."""
    begin = re.search(_LAYOUT, path)
    return path[: begin.start()] if begin else ""


def home_of(path: str) -> str | None:
    """Return the folder of the host that a record lies in; None for a file that is no record."""
    match = re.fullmatch(_RECORD, path)
    return match[1] if match else None


def stream_of(path: str) -> LogStream | None:
    """Return what a file is; None for one that holds no evidence in lines or facts."""
    host = re.search(_HOSTS, path)
    other = host[1] if host else ""
    fact = None if re.search(_PRIVATE, path) else re.search(_FACTS, path)
    if fact:
        return LogStream(path, FACTS, fact["name"], other)
    if re.search(_SKIPPED, path):
        return None
    kind = next((kind for kind, pattern in _KINDS if re.search(pattern, path)), OTHER)
    name = re.sub(_SUFFIXES, "", path.rpartition("/")[2])
    if run := re.search(_RUN, path):
        name = run[1]
    elif kind == CONTAINERS:
        match = next(filter(None, (re.search(pattern, path) for pattern in _CONTAINER)), None)
        name = match[1] if match else name
    return LogStream(path, kind, name, other, re.search(_EARLIER, path) is not None)


class LinePlace(msgspec.Struct, frozen=True, order=True):
    """The place of a line: a file of the source, and the line in it, from 1."""

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
    unit: str = ""
    """The unit whose lines its file has, where it is of one; a program may call itself otherwise."""
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


_JOURNAL: Final = (
    r"(?s)(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) "
    r"(?P<host>\S+) (?P<name>[^\s:\[\]]+)(?:\[(?P<pid>\d{1,9})\])?: (?P<text>.*)"
)
_CRI: Final = r"(?s)(?P<time>\d{4}-\d\d-\d\dT\S+) std(?:out|err) [FP] (?P<text>.*)"
_KLOG: Final = r"[IWEF](?P<day>\d{4}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)\s"
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_STAMP: Final = rf"""(?x)(?:^|[\s\["=:]) (?:
        (?P<iso>\d{{4}}-\d\d-\d\d[T\ ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)
      | (?P<slashed>\d{{4}}/\d\d/\d\d\ {_CLOCK})                                # log of Go, nginx
      | (?P<day>\d\d-\d\d-\d{{4}}\ {_CLOCK})                                    # assisted-installer-agent
      | (?P<ctime>[A-Z][a-z]{{2}}\ [A-Z][a-z]{{2}}\ [\ \d]\d\ \d\d:\d\d:\d\d\ \d{{4}})  # dmesg -T, keepalived
      | ts":\ ?(?P<epoch>\d{{10}}(?:\.\d+)?)\b                                  # zap
    )"""
_STAMP_WITHIN: Final = 64
_FAR: Final = timedelta(days=1)
_HALF_A_YEAR: Final = timedelta(days=183)
_MONTHS: Final = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_AGENT_PROGRAMS: Final = frozenset({"agent", "next_step_runner", "assisted-installer", "installer"})
_INSTALLING_PROGRAMS: Final = frozenset(
    {
        *("anaconda", "cloud-init", "coreos-installer", "curtin", "dracut", "ignition", "install-to-disk"),
        *("subiquity", "subiquity_event", "subiquity_log"),
    }
)
"""Names in the journal of programs whose own logs are those of installers."""
_PROGRAMS: Final = {
    "kubelet": frozenset({"hyperkube", "k3s", "k3s-agent", "kubenswrapper", "rke2"}),
    "containerd": frozenset({"dockerd", "k3s", "k3s-agent"}),
    "keepalived": frozenset({"Keepalived", "Keepalived_vrrp"}),
}
"""Unit -> other names under which what it runs logs: `kubelet` of OpenShift is `kubenswrapper`."""
_SCRIPT: Final = r"\.(?:sh|py)$"


class Era(msgspec.Struct, frozen=True):
    """The times that lines of a host can have: those of its records, and a day around them."""

    first: datetime | None = None
    last: datetime | None = None

    def plausible(self, time: datetime | None) -> datetime | None:
        """Return a time that this host can have had; None for one that its clock never showed."""
        if time is None or self.first is None or self.last is None:
            return time
        return time if self.first - _FAR <= time <= self.last + _FAR else None

    def with_year(self, month: str, day: str, clock: str) -> datetime | None:
        """Return the time of a line that does not tell its year: `Nov 25 13:00:01`."""
        last = self.last or datetime(2000, 1, 1, tzinfo=UTC)
        for year, later in ((last.year + 1, _FAR), (last.year, _HALF_A_YEAR), (last.year - 1, _HALF_A_YEAR)):
            time = _parsed(f"{year:04}-{month}-{day}T{clock}")
            if time is not None and time <= last + later:
                return time
        return None


def log_line(stream: LogStream, number: int, raw: bytes, era: Era) -> LogLine:
    """Return a line of a stream, taken apart."""
    text = raw.decode(errors="replace").rstrip("\r\n")
    place = LinePlace(stream.path, number)
    kind, name, pid, time = stream.kind, stream.name, None, None
    if (match := re.match(_JOURNAL, text)) is not None:
        text, name = match["text"], match["name"]
        pid = int(match["pid"]) if match["pid"] else None
        time = _parsed(match["time"]) if match["time"][0].isdigit() else _of_syslog(match["time"], era)
        kind = _kind_in_journal(stream.kind, name, has_pid=pid is not None)
    elif (match := re.match(_CRI, text)) is not None:
        text, time = match["text"], _parsed(match["time"])
    else:
        time = _own_time(text, era)
    return LogLine(
        place=place,
        kind=kind,
        name=name,
        unit=stream.name if stream.kind == JOURNAL else "",
        text=text,
        time=era.plausible(time),
        pid=pid,
        host=stream.host,
        is_earlier_boot=stream.is_earlier_boot,
    )


def _kind_in_journal(kind: str, name: str, *, has_pid: bool) -> str:
    if name == "kernel":
        return KERNEL
    if name == "systemd":
        return SYSTEMD
    if name in _AGENT_PROGRAMS:
        return AGENT
    is_journal = kind in {KERNEL, SYSTEMD} or (kind == INSTALLER and has_pid)  # /var/log/messages
    return JOURNAL if is_journal else kind


def _own_time(text: str, era: Era) -> datetime | None:
    """Return the time that a program itself writes at the beginning of its lines."""
    if (match := re.match(_KLOG, text)) is not None and era.last is not None:
        return era.with_year(match["day"][:2], match["day"][2:], match["clock"])
    stamp = re.search(_STAMP, text[:_STAMP_WITHIN])
    if stamp is None:
        return None
    if stamp["epoch"]:
        return datetime.fromtimestamp(float(stamp["epoch"]), UTC)
    if stamp["ctime"]:
        text = stamp["ctime"]
        return _parsed(f"{text[20:]}-{_month(text[4:7])}-{_day(text[8:10])}T{text[11:19]}")
    if stamp["day"]:
        day, _, clock = stamp["day"].partition(" ")
        return _parsed(f"{day[6:]}-{day[3:5]}-{day[:2]}T{clock}Z")
    return _parsed(stamp["iso"] or stamp["slashed"].replace("/", "-"))


def _of_syslog(text: str, era: Era) -> datetime | None:
    """Return the time of a line of syslog: `Nov 25 13:00:01`."""
    return era.with_year(_month(text[:3]), _day(text[4:6]), text[7:])


def _month(name: str) -> str:
    """Return the number of a month; 00, which no time has, for another word."""
    return f"{_MONTHS.index(name) if name in _MONTHS else 0:02}"


def _day(text: str) -> str:
    return text.replace(" ", "0")


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
        return line.kind != CONTAINERS and _is_of_unit(line, where[5:])
    if where.startswith("container:"):
        return line.kind == CONTAINERS and where[10:] in line.name
    if where == JOURNAL:
        return line.kind in {JOURNAL, KERNEL, SYSTEMD, AGENT}
    if where == INSTALLER:
        return line.kind == INSTALLER or line.name in _INSTALLING_PROGRAMS
    return line.kind == where


def _is_of_unit(line: LogLine, unit: str) -> bool:
    """Return whether a unit, or what it runs, wrote a line."""
    program = re.sub(_SCRIPT, "", line.name)
    return unit in {program, line.unit} or program in _PROGRAMS.get(unit, ())
