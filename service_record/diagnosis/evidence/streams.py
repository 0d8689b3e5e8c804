"""What a file of a host is, by its path: in our bundles, OpenShift's, must-gather, sos. Pure."""

import re
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
