"""Scenes on the hosts of the examples."""

from collections.abc import Callable
from typing import Final

from examples.host import Host

_PREPARE: Final = "start crio-configure release-image kubelet; await recorded kubelet 'service start'"
_WAIT: Final = "start approve-csr; await recorded approve-csr wait-for-api"
_HALF_AN_HOUR: Final = 33 * 60


def good(host: Host) -> None:
    """Everything ends well, and the kubelet goes on."""
    host.services("crio-configure", "release-image", "kubelet", "bootkube", "approve-csr", "report-progress")
    host.boot(f"""
        {_PREPARE}
        {_WAIT}
        start bootkube; await test -e /run/kube-apiserver
        start report-progress; rest bootkube approve-csr report-progress
        gather
    """)


def failed_stage(host: Host) -> None:
    """Bootkube wants an image whose registry has a name that cannot be resolved; others wait in vain."""
    host.services("crio-configure", "release-image", "kubelet", "approve-csr", "report-progress")
    host.service("bootkube", trouble="dns")
    host.boot(f"""
        {_PREPARE}
        {_WAIT}
        start bootkube; rest bootkube
        start report-progress; rest report-progress
        gather
    """)


def stuck(host: Host) -> None:
    """Etcd never gets healthy, and bootkube waits for it; what needs the API fails every eight minutes."""
    host.services("crio-configure", "release-image", "kubelet", "approve-csr")
    host.service("bootkube", trouble="etcd")
    host.service("report-progress", "Restart=on-failure", "RestartSec=8min")
    host.boot(
        f"""
        {_PREPARE}
        {_WAIT}
        start bootkube; await recorded bootkube wait-for-etcd
        start report-progress
        sleep {_HALF_AN_HOUR}
        gather
        """,
        seconds=_HALF_AN_HOUR + 120,
    )


def restart_loop(host: Host) -> None:
    """Etcd has no space left on its disk, and systemd starts bootkube again and again."""
    host.services("crio-configure", "release-image", "kubelet", "approve-csr")
    host.service(
        "bootkube", "Restart=on-failure", "RestartSec=2s", "TemporaryFileSystem=/var/lib/etcd:size=1M"
    )
    host.boot(f"""
        {_PREPARE}
        {_WAIT}
        start bootkube; await recorded bootkube 'service end' 6
        gather
    """)


def boot_loop(host: Host) -> None:
    """Old contents keep the disk in use; booted four times, the host gets no further."""
    host.services("crio-configure", "release-image")
    host.service("install-to-disk", "StateDirectory=install-to-disk", trouble="busy")
    for _ in range(4):
        host.boot("""
            start crio-configure release-image
            start install-to-disk; rest install-to-disk
            gather
        """)


def oom(host: Host) -> None:
    """Bootkube needs more memory than there is, and is killed."""
    host.services("crio-configure", "release-image", "kubelet", "approve-csr")
    host.service("bootkube", trouble="memory")
    host.boot(f"""
        {_PREPARE}
        {_WAIT}
        start bootkube; oomd bootkube; rest bootkube
        gather
    """)


def power_loss(host: Host) -> None:
    """Power fails while the host writes its disk; when the power is back, the host does nothing more."""
    state = host.gathered.with_name("state")
    state.mkdir()
    host.machine.bind(state, "/var/lib/install-to-disk")
    host.services("crio-configure", "release-image")
    host.service("install-to-disk", "ConditionPathExists=!/var/lib/install-to-disk/started")
    host.boot("""
        start crio-configure release-image
        start install-to-disk; await recorded install-to-disk write-image
        power_loss
    """)
    host.boot("""
        start crio-configure release-image
        start install-to-disk
        gather
    """)


def upstream(host: Host) -> None:
    """Clock is behind: the host refuses the certificate of the registry; a write is cut short."""
    host.services("crio-configure", "release-image", "kubelet")
    host.service("bootkube", trouble="clock")
    host.service("report-progress", trouble="killed")
    host.boot(f"""
        {_PREPARE}
        start bootkube; rest bootkube
        start report-progress; rest report-progress
        gather
    """)


EXAMPLES: Final[dict[str, Callable[[Host], None]]] = {
    "good": good,
    "failed-stage": failed_stage,
    "stuck": stuck,
    "restart-loop": restart_loop,
    "boot-loop": boot_loop,
    "oom": oom,
    "power-loss": power_loss,
    "upstream": upstream,
}
"""Name -> what happens."""

PACKED: Final = frozenset({"upstream"})
"""Those recorded as upstream does, and kept as a bundle: what they show is in the times of the files, too."""
