"""Measure this host: names, addresses, disk, memory, CPUs and clock."""

import ctypes
import errno
import ipaddress
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from service_record.preflight.checks import (
    CheckResult,
    CheckState,
    Role,
    judge_cpus,
    judge_disk,
    judge_memory,
    judge_name,
    judge_time,
    not_checked,
)
from service_record.reporter.gather.network import names_of_cluster, resolve

NAMES_SECONDS: Final = 5.0
_ADDRESS_SECONDS: Final = 8.0
"""Longer than the 3 s after which the kernel gives up on ARP. On a busy machine, 5 s were too short."""
_DISK_SECONDS: Final = 10.0
_WRITES: Final = 2000
_WRITE_BYTES: Final = 2300
"""The size of etcd's writes. The fio test in the OpenShift docs uses the same size."""
_IN_MEMORY: Final = {"tmpfs", "ramfs", "overlay", "squashfs"}
"""File systems that are or may be in memory, like the overlay of a live image."""
_DISCARD_PORT: Final = 9
_TIME_ERROR: Final = 5
"""The result of adjtimex(2) for a clock that is not synchronized."""
_TIMEX_BYTES: Final = 1024
"""More than the size of struct timex. If all bytes are zero, adjtimex(2) changes nothing."""
_MEMORY_BLOCKS: Final = Path("/sys/devices/system/memory")
_MIN_MOUNT_FIELDS: Final = 3
_LOOPBACK: Final = "lo"


def check_names(domain: str | None, role: Role) -> Iterator[CheckResult]:
    """Check that api, api-int and a name below apps have addresses."""
    checks = ("api", "api-int", "apps")
    if not domain:
        advice = "Name it: --domain CLUSTER.BASE-DOMAIN."
        yield from (not_checked(check, "no cluster domain", advice) for check in checks)
        return
    for check, answer in zip(checks, resolve(names_of_cluster(domain), NAMES_SECONDS), strict=True):
        if not answer.is_answered:
            reason = f"{answer.name}: {answer.problem}"
            yield not_checked(check, reason, "See whether this host reaches its name server.")
            continue
        is_needed = check != "api-int" or role.needs_api_int
        yield judge_name(check, answer.name, answer.addresses, answer.problem, is_needed=is_needed)


def check_free(address: str) -> CheckResult:
    """Check that no host uses an address. This works only within the IPv4 networks of this host."""
    check = f"address {address}"
    target = ipaddress.ip_address(address)
    outcome = _connect(address)
    if outcome in {0, errno.ECONNREFUSED} or _has_neighbour(address):
        return CheckResult(
            check, CheckState.FAILED, "a host has it", "Choose another, or take it from that host."
        )
    if outcome == errno.EHOSTUNREACH and target.version == 4 and _is_on_link(target):  # noqa: PLR2004
        return CheckResult(check, CheckState.PASSED, "no host answers for it")
    if outcome == errno.ENETUNREACH:
        return not_checked(check, "this host has no route to it")
    return not_checked(check, "no answer, which says nothing unless this host is in the same IPv4 network")


def _connect(address: str) -> int:
    """Return the errno of a connection to the discard port; 0 if it was accepted."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ADDRESS_SECONDS)
        try:
            return connection.connect_ex((address, _DISCARD_PORT))
        except OSError as error:
            return error.errno or errno.ETIMEDOUT


def _has_neighbour(address: str) -> bool:
    """Return True if the ARP table has the address: a host that drops packets still answers ARP."""
    rows = (line.split() for line in _lines(Path("/proc/net/arp"))[1:])
    return any(row[0] == address and int(row[2], 16) & 2 for row in rows if len(row) > 3)  # noqa: PLR2004


_RTF_REJECT: Final = 0x200
"""The flag of `unreachable` and `prohibit` routes in /proc/net/route; see linux/route.h."""


def _is_on_link(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return True if the most specific route to the address has no gateway, and is not `unreachable`."""
    best: tuple[int, bool] = (-1, False)
    for row in (line.split() for line in _lines(Path("/proc/net/route"))[1:]):
        network, gateway, mask = (int.from_bytes(bytes.fromhex(row[n])[::-1]) for n in (1, 2, 7))
        if int(address) & mask == network:
            best = max(best, (mask, gateway == 0 and not int(row[3], 16) & _RTF_REJECT))
    return best[1]


def check_disk(place: Path, role: Role) -> CheckResult:
    """Measure fdatasync like etcd uses it: short writes, each followed by a sync.

    In a directory, a file without a name is written. On a disk, the present bytes are read and written back.
    That is done only in a live system, because otherwise a program may change the disk in between.
    """
    try:
        is_device = stat.S_ISBLK(place.stat().st_mode)
    except OSError:
        is_device = False
    if is_device:
        root = file_system(Path("/"))
        if root not in _IN_MEMORY:
            reason = (
                f"{place}: a disk itself is measured only in a live system, and / is on {root or 'a disk'}"
            )
            return not_checked("disk", reason, "Name a directory on it: --disk DIRECTORY.")
        return measure_device(place, role)
    if not place.is_dir():
        advice = "Name a directory on the disk for etcd: --disk DIRECTORY."
        return not_checked("disk", f"{place} is neither a directory nor a disk", advice)
    kind = file_system(place)
    if kind is None or kind in _IN_MEMORY:
        reason = f"{place} is on {kind or 'an unknown file system'}, which may be in memory"
        advice = "Name a directory on the disk for etcd, or in a live system the disk: --disk /dev/sda."
        return not_checked("disk", reason, advice)
    try:
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            block = b"\0" * _WRITE_BYTES
            return judge_disk(str(place), _fdatasync_seconds(file.fileno(), lambda _: block), role)
    except OSError as error:
        advice = "Run it as root." if isinstance(error, PermissionError) else ""
        return not_checked("disk", f"{place}: {error.strerror}", advice)


def measure_device(device: Path, role: Role) -> CheckResult:
    """Measure fdatasync on an unused disk. Its content stays the same."""
    try:
        # With O_EXCL, the kernel refuses a disk that is mounted or has a partition in use.
        descriptor = os.open(device, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
        try:
            seconds = _fdatasync_seconds(descriptor, lambda at: os.pread(descriptor, _WRITE_BYTES, at))
        finally:
            os.close(descriptor)
    except OSError as error:
        advice = {
            errno.EBUSY: "It is in use: name a directory on it.",
            errno.EACCES: "Run it as root.",
            errno.EROFS: "It is read-only: name another disk.",
        }.get(error.errno or 0, "")
        return not_checked("disk", f"{device}: {error.strerror}", advice)
    return judge_disk(str(device), seconds, role)


def _fdatasync_seconds(descriptor: int, content: Callable[[int], bytes]) -> list[float]:
    """Return the duration of each fdatasync. `content` returns the bytes to write at an offset."""
    seconds: list[float] = []
    until = time.monotonic() + _DISK_SECONDS
    while len(seconds) < _WRITES and time.monotonic() < until:
        offset = len(seconds) * _WRITE_BYTES
        block = content(offset)
        if not block:  # a disk of less than 5 MB
            break
        os.pwrite(descriptor, block, offset)
        began = time.perf_counter()
        os.fdatasync(descriptor)
        seconds.append(time.perf_counter() - began)
    return seconds


def file_system(directory: Path) -> str | None:
    """Return the type of a directory's file system; None if it is unknown."""
    try:
        device = directory.stat().st_dev
    except OSError:
        return None
    device_number = f"{os.major(device)}:{os.minor(device)}"
    for line in _lines(Path("/proc/self/mountinfo")):
        mount, _, behind = line.partition(" - ")
        fields = mount.split()
        if len(fields) >= _MIN_MOUNT_FIELDS and fields[2] == device_number:
            return behind.split()[0]
    return "btrfs" if _is_within_btrfs(directory) else None


def _is_within_btrfs(directory: Path) -> bool:
    """Return True if the nearest mount point above a directory is btrfs.

    A btrfs subvolume has a device number of its own, which is not in mountinfo.
    """
    best = ("", "")
    for line in _lines(Path("/proc/self/mountinfo")):
        mount, _, behind = line.partition(" - ")
        point = mount.split()[4]
        if directory.resolve().is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, behind.split()[0])
    return best[1] == "btrfs"


def check_cpus(role: Role) -> CheckResult:
    """Check the number of CPUs that are online."""
    cpus = os.cpu_count()
    return (
        judge_cpus(cpus, role) if cpus else not_checked("cpu", "the kernel does not tell how many there are")
    )


def check_memory(role: Role) -> CheckResult:
    """Check the physical memory, or the memory in /proc/meminfo if the physical size is unknown."""
    physical = _physical_memory()
    if physical:
        return judge_memory(physical, role, is_physical=True)
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemTotal:"):
            return judge_memory(int(line.split()[1]) * 1024, role, is_physical=False)
    return not_checked("memory", "the kernel does not tell how much there is")


def _physical_memory() -> int:
    """Return the size of all online memory blocks in bytes; 0 if the kernel has no list of them."""
    size = "".join(_lines(_MEMORY_BLOCKS / "block_size_bytes")).strip()
    online = (_lines(block / "online") for block in _MEMORY_BLOCKS.glob("memory[0-9]*"))
    return int(size, 16) * sum(lines == ["1"] for lines in online) if size else 0


def check_time() -> CheckResult:
    """Check that the clock is synchronized, by the state that adjtimex(2) returns."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError) as error:
        return not_checked("time", f"the kernel cannot be asked: {error}")
    if state < 0:
        return not_checked("time", f"the kernel does not tell: {os.strerror(ctypes.get_errno())}")
    return judge_time(is_synchronized=state != _TIME_ERROR)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
