"""Classify the files of a host, and parse their lines. Pure.

The path of a file determines its kind: our bundles, OpenShift's bundles, must-gather, sos, cloud-init,
Anaconda and others have known file names. For an unknown path the first bytes decide.

Patterns are plain strings, which `re` compiles on first use. A run without log files compiles none.
"""

import re
from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from functools import cache
from pkgutil import get_data
from typing import Final

import msgspec

from service_record.record.recognition import KERNEL_TIMES, LOGS, TIMES, FileForm, recognise

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
    """A file of a host, classified."""

    path: str
    kind: str
    name: str = ""
    """The unit, container or fact in the file."""
    host: str = ""
    """The address or name of another host of the cluster; empty for the host of the records."""
    is_earlier_boot: bool = False
    form: FileForm = FileForm.TEXT
    services: tuple[str, ...] = ()
    """The services that wrote the file: an installer logs to files instead of the journal."""


_OTHER_HOSTS: Final = (
    r"(?:^|/)(?:control-plane|nodes|hosts)/([0-9A-Za-z.:_-]+)/"
    r"|(?:^|/)serial/(?!.*bootstrap)([^/]+)-serial\.log$"  # the consoles in a log bundle
)
"""Files of other hosts in a bundle of a cluster. One of the groups has the name of the host."""
_RECORD: Final = r"(?s)(.*?)(?:bootstrap/services|var/log/openshift)/[^/]+\.json"
_SKIPPED: Final = (
    r"(?:^|/)(?:bootstrap/services/|var/log/openshift/|unit-files?\.|units\.txt$)"
    r"|\.(?:json|ign|ya?ml|key|html|svg|png|jou?rnal|img|rpm|deb|service|conf\.d|pem|inspect|pyc?)"
    r"(?:\.[a-z0-9]+)?$"
    r"|(?:^|/)(?:audit|secrets?|sos_reports|sos_logs|version\.txt|list_units_files|coredump_exe_[^/]*)(?:/|$)"
    # Tables of counters, with columns such as `errors dropped missed` on every host.
    r"|(?:^|/)(?:ip-(?:link|neighbour)|ip_(?:-[a-z0-9]+_)*(?:link|neigh)|ethtool_|netstat_)[^/]*$"
)
"""Text files without log lines, such as records and configuration files."""
_ROTATED: Final = r"(?:[.-]\d[\d.T-]*|\.old)?"
"""Suffixes of rotated logs: `.1`, `-20260302`, `.20260302-101010`."""
_KINDS: Final = tuple(
    (kind, f"(?x){pattern}")
    for kind, pattern in (
        (
            KERNEL,
            rf"""(?:^|/) (?: pstore/ | (?:kernel|dmesg|console|vmcore-dmesg)[^/]*$ | kern\.log{_ROTATED}$
              | serial/[^/]+\.log$ | serial[^/]*\.(?:log|txt)$ )
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
              | [^/]+/[^/]+/logs\.txt$  # kubectl cluster-info dump: NAMESPACE/POD/logs.txt
              | (?:crictl|podman|docker)_(?:-r_\S+_)?logs_[^/]+$ )""",
        ),
        (
            INSTALLER,
            rf"""(?:^|/) (?: (?:anaconda|cloud-init|curtin|subiquity|installer)/
              | (?:cloud-init|cloud-config|anaconda|packaging|program|storage|dnf|curtin|subiquity|install
                  |ignition|syslog|messages|autoinstall|ks-script|preseed|partman|dpkg|casper|oem-config|ubiquity)
                  [^/]*?(?:\.log|\.txt|){_ROTATED}$
              | anaconda-tb-[^/]+$
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
"""Kind -> pattern of the paths of its files. The first match counts."""
_CONTAINER: Final = (
    r"(?:^|/)pod-logs/[^/]+/([^/]+)/[^/]+$",
    r"/pods/[^/]+/([^/]+)/(?:[^/]+/)?logs/[^/]+$",
    r"/log/pods/[^/]+/([^/]+)/[^/]+$",
    r"(?:^|/)pods/[^/]+/([^/]+)/\d+\.log$",  # kind export logs
    r"(?:^|/)[^/]+/([^/]+)/logs\.txt$",
    r"(?:crictl|podman|docker)_(?:-r_\S+_)?logs_(?:-t_)?([^/]+)$",
    r"(?:^|/)(?:containers|pods|bootstrap-control-plane)/(?:.*/)?([^/]+?)(?:-[0-9a-f]{4,64})?(?:\.inspect)?\.log$",
)
"""Paths of container logs. The group has the name of the container."""
_RUN_LOG: Final = r"(?:^|/)journals/invocations/([^/]+)-[0-9a-f]{32}\.log$"
"""The journal of one run: all lines belong to its service, whichever process wrote them."""
_SUFFIXES: Final = r"(?:_service)?\.(?:logs?|txt)$|\.service(?:\.txt)?$"
_ANACONDA: Final = ("anaconda", "anaconda-direct", "anaconda-pre")
_CLOUD_INIT: Final = (
    *("cloud-init-local", "cloud-init", "cloud-init-network", "cloud-init-main"),
    *("cloud-config", "cloud-final"),
)
_SUBIQUITY: Final = (
    *("subiquity-server", "subiquity", "snap.subiquity.subiquity-server"),
    *("curtin-install", "curtin"),
)
_IGNITION: Final = tuple(
    f"ignition-{stage}" for stage in ("fetch", "fetch-offline", "kargs", "disks", "mount", "files")
)
_INSTALLERS: Final = (
    (
        r"(?:^|/)(?:anaconda|packaging|program|storage|ks-script|dnf\.librepo)[^/]*$|(?:^|/)anaconda/",
        (
            rb"^[\d:,]{8,12} (?:INFO?|DBG|DEBUG|WARN(?:ING)?|WRN|ERR(?:OR)?|CRT|CRITICAL) [\w.]+:"
            rb"|^anaconda [\w.-]+ exception report"
        ),
        _ANACONDA,
    ),
    (
        r"(?:^|/)cloud-(?:init|config)",
        (
            rb"^(?:[^\n]{0,60} )?(?:util|subp|stages|handlers|main|helpers|schema|cc_\w+|DataSource\w+)\.py"
            rb"\[[A-Z]+\]: "
            rb"|^Cloud-init v\. \d"
        ),
        _CLOUD_INIT,
    ),
    (
        r"(?:^|/)(?:subiquity|curtin|autoinstall)",
        (
            rb"^[^\n]{0,80}\b(?:start|finish): (?:subiquity/|cmd-install)"
            rb"|^[^\n]{0,80}\bcurtin\.util\.\w+Error:"
            rb"|^[\d-]+ [\d:,]+ [A-Z]+ (?:subiquity|root|curtin)[\w.]*:\d+ "
        ),
        _SUBIQUITY,
    ),
    (r"(?:^|/)ignition[^/]*$", None, _IGNITION),
    (r"(?:^|/)partman[^/]*$", None, ("partman", "debian-installer")),
)
"""Path of an installer's log, its lines under any other path, and the services that write it."""
_STATUS_DOCUMENTS: Final = r"(?:^|/)(?:status|result)\.json$"
"""Status files of cloud-init with the errors of its stages: `{"v1": {"init": {"errors": []}}}`."""
_EVENTS: Final = r"(?:^|/)events\.json$"
"""Events of the pods in a namespace. Other JSON files of `kubectl cluster-info dump` have only settings."""
_EARLIER_BOOT: Final = r"(?:^|/)boot-\d+\.log$|previous(?!\.(?:insecure\.)?log$)|(?:^|/)pstore/"
"""Logs of earlier boots. The `previous.log` of a container can be from the same boot, so it is not
included."""
_FACTS: Final = r"""(?x)(?:^|/) (?P<name>
      (?: resolv\.conf | nsswitch\.conf | hostname | hostnamectl(?:_status)?
        | cmdline | kernel-command-line | proc_cmdline | hardware-(?:vendor|model)
        | ip-addr | ip-(?:6-)?route | ipaddr | iproute | ip_(?:-[a-z0-9_]+_)?(?:addr(?:ess)?|route)[^/]*
        | memory | meminfo | swaps | modules | lsmod | lsblk(?:[-_][^/]*)?
        | df | df-inodes | df_-al[^/]* | findmnt | mounts | mtab | fstab | blkid[^/]*
        | chrony-(?:tracking|sources) | chronyc_(?:-n_)?(?:tracking|sources) | timedatectl(?:_status)?
        | rpm-ostree | rpm-ostree/status | rpm-ostree_status[^/]* | os-release
        | boots | journalctl_[^/]*--list-boots | secure-boot | mokutil_--sb-state | efibootmgr(?:_-v)?
        | failed-units | list_units | systemctl_list-units(?:_--(?:all|failed))?
        | cluster-names | cgroup | selinux | sestatus(?:_-b)? | crictl[-_]images
        | packages | programs-on-path | rpm-qa | installed-(?:rpms|debs) | dpkg_-l
        | cleanfsynctest\.log
      ) (?:\.txt)?
    | [^/]+\.crt | (?:certificates|pki|tls)/(?:[^/]+/)?[^/]+\.pem ) $"""


_PRIVATE: Final = r"(?:^|/)(?:secrets?|private)/|(?:^|/)services/[^/]*\.json$"
_LAYOUT: Final = (
    r"(?:^|(?<=/))(?:bootstrap/(?:journals|network|storage|system|containers|pods|pod-logs|services|agent|installer|rpm-ostree)/"
    r"|(?:sos_commands|etc|proc|run|sys|usr|var|unit-status|rendered-assets|resources|rpm-ostree)/"
    r"|[^/]+$)"
)
"""The first known folder in the path of a host's file; for other paths, the file name."""


def find_top(path: str) -> str:
    """Return the top folder of a host's files, derived from the path of one of them."""
    begin = re.search(_LAYOUT, path)
    return path[: begin.start()] if begin else ""


_ROOT_FOLDERS: Final = r"(?:etc|usr|var|opt|boot|home|root|srv|lib|lib64|bin|sbin)/."


def find_path_on_host(path: str) -> str | None:
    """Return the path of a file on its host, in a copy of the host's directories such as sosreport."""
    own = path.removeprefix(find_top(path))
    return f"/{own}" if re.match(_ROOT_FOLDERS, own) else None


def find_home(path: str) -> str | None:
    """Return the top folder of the host to which a record belongs; None if the file is not a record."""
    match = re.fullmatch(_RECORD, path)
    return match[1] if match else None


def classify_file(path: str, head: bytes = b"") -> LogStream | None:
    """Classify a file by its path and its first bytes; None for a file that is not used."""
    host = re.search(_OTHER_HOSTS, path)
    other = (host[1] or host[2]) if host else ""
    fact = None if re.search(_PRIVATE, path) else re.search(_FACTS, path)
    if fact:
        return LogStream(path, FACTS, fact["name"], other)
    form = recognise(head)
    form = FileForm.TEXT if form is FileForm.EMPTY else form
    if form is FileForm.JSON and b'"errors"' in head and re.search(_STATUS_DOCUMENTS, path):
        return LogStream(path, INSTALLER, "cloud-init", other, services=_CLOUD_INIT)
    if form is FileForm.JSON and re.search(_EVENTS, path):
        return LogStream(path, OTHER, "events", other)
    is_journal = form in _JOURNALS
    is_unreadable = form not in LOGS or form is FileForm.JOURNAL_BINARY
    if is_unreadable or (form is FileForm.TEXT and re.search(_SKIPPED, path)):
        return None
    kind = next((kind for kind, pattern in _KINDS if re.search(pattern, path)), OTHER)
    name = re.sub(_SUFFIXES, "", path.rpartition("/")[2])
    if run := re.search(_RUN_LOG, path):
        name = run[1]
    elif kind == CONTAINERS:
        match = next(filter(None, (re.search(pattern, path) for pattern in _CONTAINER)), None)
        name = match[1] if match else name
    elif (is_journal and kind in {OTHER, INSTALLER}) or (kind == JOURNAL and name.startswith("journal")):
        kind, name = JOURNAL, ""  # of many units; another file name would be that of the unit
    elif kind == OTHER:
        kind = {FileForm.KERNEL: KERNEL, FileForm.CONTAINER: CONTAINERS}.get(form, OTHER)
    is_earlier = re.search(_EARLIER_BOOT, path) is not None
    services = _find_installer_services(path) if kind == INSTALLER else ()
    if kind == OTHER and (services := _recognise_installer(head)):
        kind = INSTALLER
    return LogStream(path, kind, name, other, is_earlier, form, services)


_JOURNALS: Final = frozenset(
    {FileForm.JOURNAL, FileForm.JOURNAL_JSON, FileForm.JOURNAL_EXPORT, FileForm.JOURNAL_VERBOSE}
)


_SECTION: Final = rb"(?m)^#==\[ [A-Z][^\n]{0,80}\n# (?P<source>[^\n]{1,200})\n"


def split_sections(text: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and text of each fact in a file of supportconfig, which joins files and outputs of commands.

    Names are as in `classify_file`. Each text begins with an empty line for each line before it in the file,
    so that its line numbers are those of the file.
    """
    sections = list(re.finditer(_SECTION, text))
    for number, section in enumerate(sections):
        words = section["source"].decode(errors="replace").removeprefix("/bin/cat ").split()
        words[:1] = [words[0].rpartition("/")[2]] if words else []
        names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
        name = next((name for name in names if re.search(_FACTS, name)), None)
        if name is not None:
            end = sections[number + 1].start() if sections[number + 1 :] else len(text)
            before = text.count(b"\n", 0, section.end())
            yield name, "\n" * before + text[section.end() : end].decode(errors="replace")


def _find_installer_services(path: str) -> tuple[str, ...]:
    """Return the services that write the installer log with this path; empty if they are not known."""
    return next((services for pattern, _, services in _INSTALLERS if re.search(pattern, path)), ())


def _recognise_installer(head: bytes) -> tuple[str, ...]:
    """Return the services that write an installer log, judged by its first lines; empty for other files."""
    return next(
        (services for _, lines, services in _INSTALLERS if lines and re.search(lines, head, re.MULTILINE)), ()
    )


class LinePlace(msgspec.Struct, frozen=True, order=True):
    """The place of a line: a file of the source, and the line in it, from 1."""

    path: str
    line: int | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed line of a log. `text` is the message without its prefix."""

    place: LinePlace
    kind: str
    """One of KINDS_OF_LINES. A line of the kernel in the journal has the kind KERNEL."""
    name: str
    """The program or container that wrote it."""
    unit: str = ""
    """The service that wrote it, if the file or the journal shows it. Its program may have another name."""
    services: tuple[str, ...] = ()
    """The services of the installer that wrote it."""
    priority: int | None = None
    """The syslog priority from 0 (emergency) to 7 (debug), if the journal has it."""
    text: str
    time: datetime | None = None
    """None if the line has no plausible time."""
    pid: int | None = None
    host: str = ""
    is_earlier_boot: bool = False

    @property
    def identity(self) -> tuple[datetime | None, str, str]:
        """Return a key that is equal for copies of a line, as in the journals of a unit and of all units."""
        return self.time, self.name, self.text


_JOURNAL: Final = (
    rf"(?s)(?P<time>{TIMES}) "
    r"(?:(?P<host>[^\s;]*[^\s;:])(?:;(?P<unit>[^\s;]*);(?P<priority>[0-7]?)(?:;boot)?)? "
    r"|(?=(?:[^\s:\[\]]+\[\d{1,10}\]|kernel): ))"  # journalctl --no-hostname
    r"(?P<name>[^\s:\[\]]+)(?:\[(?P<pid>\d{1,10})\])?: (?P<text>.*)"
)
"""A line of a journal. `journal_forms` adds the unit and the priority if the journal has them."""
_WITH_UNIT: Final = r"(?P<unit>[^\s/]+)\.(?:service|scope|mount|socket|timer|slice)(?:/\S*)?"
"""The name in a line of `journalctl -o with-unit`."""
_KERNEL: Final = rf"(?s){KERNEL_TIMES} ?(?P<text>.*)"
_USER_SPACE: Final = r"(?s)(?P<name>[a-z][\w.@-]{1,40})\[(?P<pid>\d{1,10})\]: (?P<text>.*)"
"""A line of a program in the kernel's buffer in early boot: `[    3.1] systemd[1]: Failed to start …`."""
_BARE: Final = rf"(?s)(?:.{{0,200}}?\[ *\d{{1,9}}\.\d{{6}}\] )?{_USER_SPACE[4:]}"
"""A line that begins with its program, or a line of the kernel's buffer within a console line."""
_STATUS: Final = r"(?s)\[ {0,2}(?:OK|FAILED|DEPEND|TIME) {0,2}\] (?P<text>\S.*)"
"""A line in which systemd shows on the console how a unit started or stopped."""
_CRI: Final = r"(?s)(?P<time>\d{4}-\d\d-\d\dT\S+) std(?:out|err) [FP] (?P<text>.*)"
_KLOG: Final = r"[IWEF](?P<day>\d{4}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)\s"
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_SYSLOG_TIME: Final = r"(?P<month>[^\[]{2,48}?) (?P<day>[ \d]\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)"
_STAMP: Final = rf"""(?x)(?:^|[\s\["=:]) (?:
        (?P<iso>\d{{4}}-\d\d-\d\d[T\ ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?)
      | (?P<slashed>\d{{4}}/\d\d/\d\d\ {_CLOCK})                                # log of Go, nginx
      | (?P<day>\d\d-\d\d-\d{{4}}\ {_CLOCK})                                    # assisted-installer-agent
      | (?P<ctime>[A-Z][a-z]{{2}}\ [A-Z][a-z]{{2}}\ [\ \d]\d\ \d\d:\d\d:\d\d\ \d{{4}})  # dmesg -T, keepalived
      | ts":\ ?(?P<epoch>\d{{10}}(?:\.\d+)?)\b                                  # zap
    )"""
_MAX_STAMP_CHARACTERS: Final = 64
"""A time that the program itself wrote is searched only in this part of the message."""
_MARGIN: Final = timedelta(days=1)
_HALF_A_YEAR: Final = timedelta(days=183)
_MONTHS: Final = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTH_NAMES: Final = "month_names.txt"
"""The months in other languages, each with its number. `make months` writes the file from glibc's locales."""
_AGENT_PROGRAMS: Final = frozenset({"agent", "next_step_runner", "assisted-installer", "installer"})
_INSTALLING_PROGRAMS: Final = frozenset(
    {
        *("anaconda", "cloud-init", "coreos-installer", "curtin", "dracut", "ignition", "install-to-disk"),
        *("subiquity", "subiquity_event", "subiquity_log"),
    }
)
"""Names under which installers log to the journal."""
_OTHER_NAMES: Final = {
    "kubelet": frozenset({"hyperkube", "k3s", "k3s-agent", "kubenswrapper", "rke2"}),
    "containerd": frozenset({"dockerd", "k3s", "k3s-agent"}),
    "keepalived": frozenset({"Keepalived", "Keepalived_vrrp"}),
    "docker": frozenset({"dockerd"}),
    **{stage: frozenset({"ignition"}) for stage in _IGNITION},
    "ssh": frozenset({"sshd"}),
    "cron": frozenset({"CRON", "crond"}),
    "rpm-ostreed": frozenset({"rpm-ostree"}),
    "ovs-configuration": frozenset({"configure-ovs"}),
    "machine-config-daemon-firstboot": frozenset({"machine-config-daemon"}),
    "named": frozenset({"named-pkcs11"}),
    "cloud-init-local": frozenset({"cloud-init"}),
    "cloud-init-main": frozenset({"cloud-init"}),
    "cloud-config": frozenset({"cloud-init"}),
    "cloud-final": frozenset({"cloud-init"}),
    "k3s": frozenset({"k3s"}),
    "k3s-agent": frozenset({"k3s"}),
    "rke2-server": frozenset({"rke2"}),
    "rke2-agent": frozenset({"rke2"}),
}
"""Unit -> other names under which its programs log: `kubelet` of OpenShift logs as `kubenswrapper`."""
_KINDS_THAT_LOG: Final = (".service", ".mount", ".swap")
"""Suffixes of the units for which systemd runs programs."""
_SCRIPT: Final = r"\.(?:sh|py)$"


class Era(msgspec.Struct, frozen=True):
    """The period of the records of a host. Lines can have times up to a day outside it."""

    first: datetime | None = None
    last: datetime | None = None
    near: datetime | None = None
    """The time of a line near by. Lines without a year get the year in which they are nearest to it."""

    def plausible(self, time: datetime | None) -> datetime | None:
        """Return the time if it is within the period and its margin, else None.

        If the period is unknown, every time is plausible.
        """
        if time is None or self.first is None or self.last is None:
            return time
        return time if self.first - _MARGIN <= time <= self.last + _MARGIN else None

    def with_year(self, month: str, day: str, clock: str) -> datetime | None:
        """Return the time of a line without a year, in UTC; None if it is invalid.

        Without a time near by, the year is the latest one in which the time is at most a day after the end of
        the period.
        """
        last = self.last or datetime(2000, 1, 1, tzinfo=UTC)
        if self.near is not None:
            last = self.near + _HALF_A_YEAR
        for year in (last.year + 1, last.year, last.year - 1):
            time = parse_time(f"{year:04}-{month}-{day}T{clock}")
            if time is not None and time <= last + _MARGIN:
                return time
        return None

    @classmethod
    def around(cls, time: datetime) -> "Era":
        """Return the period in which lines without a year get the year that is nearest to `time`."""
        return cls(near=time)


def log_line(stream: LogStream, number: int, raw: bytes, era: Era) -> LogLine:
    """Parse a line of a file."""
    text = raw.decode(errors="replace").rstrip("\r\n")
    place = LinePlace(stream.path, number)
    kind, name, pid, time, priority = stream.kind, stream.name, None, None, None
    unit = stream.name if stream.kind == JOURNAL else ""
    may_be_kernel = stream.form is FileForm.KERNEL or stream.kind == KERNEL
    if may_be_kernel and (match := re.match(_KERNEL, text)) is not None:
        text, name, kind = match["text"], "kernel", KERNEL
        if (own := re.match(_USER_SPACE, text)) is not None:
            text, name, pid = own["text"], own["name"], int(own["pid"])
            kind = _find_kind(KERNEL, name, has_pid=True)
        time = _find_own_time(match[0], era)
    elif (match := re.match(_JOURNAL, text)) is not None:
        text, name = match["text"], match["name"]
        pid = int(match["pid"]) if match["pid"] else None
        time = time_in_journal(match["time"], era)
        # The log of debian-installer has no hosts, but that of a system has them: /var/log/messages.
        has_host = match["host"] is not None
        kind = _find_kind(stream.kind, name, has_pid=pid is not None and has_host)
        unit = _find_service_label(match["unit"] or "") or unit
        priority = int(match["priority"]) if match["priority"] else None
        if (whole := re.fullmatch(_WITH_UNIT, name)) is not None:
            unit = name = whole["unit"]
            kind = SYSTEMD if name == "init" else kind
    elif kind in {KERNEL, OTHER} and (match := re.match(_STATUS, text)) is not None:
        text, name, kind = match["text"], "systemd", SYSTEMD
    elif (match := re.match(_CRI, text)) is not None:
        text, time = match["text"], parse_time(match["time"])
    elif kind in {KERNEL, OTHER} and (match := re.match(_BARE, text)) is not None:
        text, name, pid = match["text"], match["name"], int(match["pid"])
        time, kind = _find_own_time(text, era), _find_kind(kind, name, has_pid=True)
    else:
        time = _find_own_time(text, era)
    return LogLine(
        place=place,
        kind=kind,
        name=name,
        unit=unit,
        services=stream.services,
        priority=priority,
        text=text,
        time=era.plausible(time),
        pid=pid,
        host=stream.host,
        is_earlier_boot=stream.is_earlier_boot,
    )


def _find_service_label(unit: str) -> str:
    """Return the label of a service, mount or swap unit; empty for other units."""
    return unit.removesuffix(".service") if unit.endswith(_KINDS_THAT_LOG) else ""


def time_in_journal(text: str, era: Era) -> datetime | None:
    """Parse a time in one of the forms of `TIMES`; None for a time since boot, or in an unknown language."""
    if text[0] == "[":
        return None
    if (match := re.fullmatch(_SYSLOG_TIME, text)) is not None:
        return era.with_year(_parse_month(match["month"]), _pad_day(match["day"]), match["clock"])
    if re.match(r"\d+\.", text):
        return datetime.fromtimestamp(float(text), UTC)
    if text[0].isdigit():
        return parse_time(text)
    if text[4:8].isdigit():  # with weekday and zone name; the zone is assumed to be UTC
        _, day, clock, _ = text.split(" ", 3)
        return parse_time(f"{day}T{clock}")
    return None


def is_without_year(text: str) -> bool:
    """Return True if a time in one of the forms of `TIMES` has a month but no year."""
    return re.fullmatch(_SYSLOG_TIME, text) is not None


def _find_kind(kind: str, name: str, *, has_pid: bool) -> str:
    """Return the kind of a line by the program `name` that wrote it; `kind` is the kind of its file."""
    if name == "kernel":
        return KERNEL
    if name == "systemd":
        return SYSTEMD
    if name in _AGENT_PROGRAMS:
        return AGENT
    is_journal = kind in {KERNEL, SYSTEMD, OTHER} or (kind == INSTALLER and has_pid)  # /var/log/messages
    return JOURNAL if is_journal else kind


def _find_own_time(text: str, era: Era) -> datetime | None:
    """Return the time that the program itself wrote at the beginning of the line, or None."""
    if (match := re.match(_KLOG, text)) is not None and era.last is not None:
        return era.with_year(match["day"][:2], match["day"][2:], match["clock"])
    stamp = re.search(_STAMP, text[:_MAX_STAMP_CHARACTERS])
    if stamp is None:
        return None
    if stamp["epoch"]:
        return datetime.fromtimestamp(float(stamp["epoch"]), UTC)
    if stamp["ctime"]:
        text = stamp["ctime"]
        return parse_time(f"{text[20:]}-{_parse_month(text[4:7])}-{_pad_day(text[8:10])}T{text[11:19]}")
    if stamp["day"]:
        day, _, clock = stamp["day"].partition(" ")
        return parse_time(f"{day[6:]}-{day[3:5]}-{day[:2]}T{clock}Z")
    return parse_time(stamp["iso"] or stamp["slashed"].replace("/", "-"))


def _parse_month(name: str) -> str:
    """Return the two digits of a month, whose name may be in any language. Other words give `00`."""
    number = _MONTHS.index(name) if name in _MONTHS else _read_foreign_months().get(name.strip(), 0)
    return f"{number:02}"


@cache
def _read_foreign_months() -> dict[str, int]:
    """Return the names of months in other languages, and their numbers."""
    data = get_data("service_record.diagnosis.evidence", MONTH_NAMES)
    assert data is not None, MONTH_NAMES  # noqa: S101  # it is in the package
    lines = (line.rpartition(" ") for line in data.decode().splitlines())
    return {name: int(number) for name, _, number in lines}


def _pad_day(text: str) -> str:
    return text.replace(" ", "0")


def parse_time(text: str) -> datetime | None:
    """Parse an ISO 8601 time, in UTC if it has no zone; None if it is invalid.

    The first and the last year of `datetime` are invalid too: converting them to another zone may overflow.
    """
    try:
        time = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    if time.year in {MINYEAR, MAXYEAR}:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def matches_source(line: LogLine, where: str) -> bool:
    """Return True if a line is from the source `where` of a rule: `kernel`, `unit:NAME`, `any`, ..."""
    if where == "any":
        return True
    if where.startswith("unit:"):
        return line.kind != CONTAINERS and _is_written_by(line, where[5:])
    if where.startswith("container:"):
        return line.kind == CONTAINERS and where[10:] in line.name
    if where == JOURNAL:
        return line.kind in {JOURNAL, KERNEL, SYSTEMD, AGENT}
    if where == INSTALLER:
        return line.kind == INSTALLER or line.name in _INSTALLING_PROGRAMS
    return line.kind == where


def is_own_line(line: LogLine, service: str) -> bool:
    """Return True if a service wrote a line, judged by its unit, its program or its log file."""
    if line.host or line.kind in {KERNEL, SYSTEMD, CONTAINERS}:
        return False
    return service in line.services or _is_written_by(line, service)


def _is_written_by(line: LogLine, unit: str) -> bool:
    """Return True if a unit or one of its programs wrote a line."""
    program = re.sub(_SCRIPT, "", line.name)
    return unit == line.unit or program in program_names(unit)


def program_names(unit: str) -> frozenset[str]:
    """Return the names under which the programs of a unit may log.

    An instance logs as its template, and a snap's program without the prefix: `systemd-fsck@dev-sdb2` as
    `systemd-fsck`, `snap.microk8s.daemon-kubelite` as `microk8s.daemon-kubelite`.
    """
    return _OTHER_NAMES.get(unit, frozenset()) | {unit, unit.partition("@")[0], unit.removeprefix("snap.")}
