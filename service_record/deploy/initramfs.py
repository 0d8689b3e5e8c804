"""The recorder of an initramfs: files for a module of dracut, and an archive to append to any initrd.

See docs/initramfs.md.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping
from stat import S_IFDIR, S_IFLNK, S_IFREG
from typing import Final

from service_record.deploy.delivered import MODULE_FILES, source

SETTINGS: Final = "etc/service-record/initramfs"
"""The directory of the settings in an initramfs, and on a host whose dracut copies them."""
_SCRIPT: Final = MODULE_FILES[0]
_PROGRAMS: Final = "usr/lib/service-record"
_UNITS: Final = "usr/lib/systemd/system"
_HOOKS: Final = "usr/lib/dracut/hooks"
_WANTED_BY: Final = {
    "failure": ("emergency.target", "dracut-emergency.service"),
    "retry": ("emergency.target", "dracut-emergency.service"),
    "handover": ("initrd.target",),
}
"""Unit of ours -> the units that start it."""
_HOOKED: Final = {"failure": ("emergency", "shutdown-emergency"), "handover": ("pre-pivot",)}
"""Hook of ours -> the hooks of dracut where an initramfs has no systemd."""


def initramfs_archive(settings: Mapping[str, bytes], curl: bytes | None = None) -> bytes:
    """Return a compressed archive that is appended to an initrd. The same arguments give the same bytes.

    `settings` are files by name, such as `url` and `token`. `curl` is a program without libraries.

    The archive is compressed because the kernel finds an uncompressed one only at an offset that is divisible
    by four, and `cat` does not see to that.
    """
    return gzip.compress(newc_archive(_entries(settings, curl)), 9, mtime=0)


def _entries(settings: Mapping[str, bytes], curl: bytes | None) -> Iterator[tuple[str, int, bytes]]:
    """Yield path, mode and content of each file, directory and link, by path of the initramfs.

    Directories that an initramfs has are left out: where one of these is a link, as dracut's hooks are, the
    kernel would replace it by an empty directory. A file whose directory is missing is skipped by the kernel.
    """
    yield _PROGRAMS, S_IFDIR | 0o755, b""
    yield f"{_PROGRAMS}/{_SCRIPT}", S_IFREG | 0o755, source(f"shell/initramfs/{_SCRIPT}")
    for name, wanting in _WANTED_BY.items():
        unit = f"service-record-initramfs-{name}.service"
        yield f"{_UNITS}/{unit}", S_IFREG | 0o644, source(f"units/initramfs/{unit}")
        for other in wanting:
            yield f"{_UNITS}/{other}.wants", S_IFDIR | 0o755, b""
            yield f"{_UNITS}/{other}.wants/{unit}", S_IFLNK | 0o777, f"../{unit}".encode()
    for name, hooks in _HOOKED.items():
        for hook in hooks:
            script = source(f"shell/initramfs/{name}-hook.sh")
            yield f"{_HOOKS}/{hook}/95-service-record-{name}.sh", S_IFREG | 0o755, script
    if curl is not None:
        yield "usr/bin/curl", S_IFREG | 0o755, curl
    if settings:
        for directory in ("etc/service-record", SETTINGS):
            yield directory, S_IFDIR | 0o755, b""
        for name, data in settings.items():
            yield f"{SETTINGS}/{name}", S_IFREG | 0o600, data


def newc_archive(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return an archive of paths with their modes and contents, in the format `newc` of cpio.

    The kernel's initramfs-buffer-format.rst specifies it.
    """
    archive = bytearray()
    for inode, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        path = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        archive += bytes(-len(archive) % 4) + data
        archive += bytes(-len(archive) % 4)
    return bytes(archive)
