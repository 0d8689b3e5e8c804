"""Tables of the programs, files and logs that describe the state of a host, each with a name.

`live_host` reads all of them on the host itself. `reporter/gather/collectors` puts them into a bundle, with
further files that only people read. Rules find the evidence by the names of files and by the names in
HOST_PROGRAMS; see `classify_file`.
"""

from typing import Final, NamedTuple

HOST_PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "ip-addr": ("ip", "-d", "addr"),
    "ip-route": ("ip", "-d", "route", "show", "table", "all"),
    "ip-6-route": ("ip", "-6", "-d", "route", "show", "table", "all"),
    "lsblk": (
        "lsblk",
        "--output=NAME,MAJ:MIN,TYPE,SIZE,RO,RM,FSTYPE,LABEL,UUID,MOUNTPOINT,MODEL,SERIAL,STATE",
    ),
    "df.txt": ("df", "--local", "--print-type", "--all"),
    "df-inodes.txt": ("df", "--local", "--inodes", "--all"),
    "timedatectl": ("timedatectl", "status"),
    "chrony-tracking.txt": ("chronyc", "-n", "tracking"),
    "chrony-sources.txt": ("chronyc", "-n", "sources"),
    "rpm-ostree_status": ("rpm-ostree", "status"),
    "efibootmgr.txt": ("efibootmgr",),
    "secure-boot.txt": ("mokutil", "--sb-state"),
}
"""Name -> command. `live_host` yields the output under this name."""

HOST_FILES: Final = {
    "hostname": "/proc/sys/kernel/hostname",
    "resolv-conf": "/etc/resolv.conf",
    "nsswitch-conf": "/etc/nsswitch.conf",
    "proc-mounts": "/proc/1/mounts",
    "memory": "/proc/meminfo",
    "swaps": "/proc/swaps",
    "modules": "/proc/modules",
    "kernel-command-line": "/proc/cmdline",
    "os-release": "/etc/os-release",
}
"""Name -> path."""


class LogFiles(NamedTuple):
    """The logs below a directory that match one of the patterns. Patterns are absolute paths."""

    base: str
    patterns: tuple[str, ...]


HOST_LOGS: Final = {
    "pstore": LogFiles("/sys/fs/pstore", ("/sys/fs/pstore/*",)),
    "pstore-kept": LogFiles(
        "/var/lib/systemd/pstore", ("/var/lib/systemd/pstore/*/*", "/var/lib/systemd/pstore/*/*/*")
    ),
    "installer-logs": LogFiles(
        "/var/log",
        (
            "/var/log/cloud-init*.log",
            "/var/log/anaconda/*.log",
            "/var/log/installer/*.log",
            "/var/log/installer/*/*.log",
            "/var/log/curtin/*.log",
        ),
    ),
    "agent-logs": LogFiles(
        "/var/log", ("/var/log/agent*/*.log", "/var/log/agent*.log", "/var/log/assisted-installer*.log")
    ),
    # Links in /var/log/containers lead to the same files.
    "pod-logs": LogFiles("/var/log/pods", ("/var/log/pods/*/*/*.log",)),
    "control-plane-logs": LogFiles(
        "/var/log/bootstrap-control-plane", ("/var/log/bootstrap-control-plane/*.log",)
    ),
}
"""Name -> logs."""
