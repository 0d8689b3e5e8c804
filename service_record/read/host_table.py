"""The programs and files that explain a host: by name, for the host itself and for its bundle."""

from typing import Final

HOST_PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "ip-addr": ("ip", "-d", "addr"),
    "ip-route": ("ip", "-d", "route", "show", "table", "all"),
    "ip-6-route": ("ip", "-6", "-d", "route", "show", "table", "all"),
    "lsblk": (
        "lsblk",
        "--output=NAME,MAJ:MIN,TYPE,SIZE,RO,RM,FSTYPE,LABEL,UUID,MOUNTPOINT,MODEL,SERIAL,STATE",
    ),
    "df.txt": ("df", "--local", "--print-type", "--all"),
    "timedatectl": ("timedatectl", "status"),
    "chrony-tracking.txt": ("chronyc", "-n", "tracking"),
    "chrony-sources.txt": ("chronyc", "-n", "sources"),
    "rpm-ostree_status": ("rpm-ostree", "status"),
    "efibootmgr.txt": ("efibootmgr",),
}
"""Programs whose output explains a host, on the host and in its bundle. Rules know the output by the name."""
