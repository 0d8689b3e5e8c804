"""A machine in QEMU that boots Debian's kernel with an initrd of dracut.

debootstrap(8) installs kernel, dracut and QEMU in a tree of their own in .cache, once: nothing is installed
on this host. The root file system of the machine has what its initrd has, and a unit that ends the test.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from packages.stage import Package, place_package
from testing.debian import rootfs

PACKAGES: Final = (
    *("systemd", "systemd-sysv", "udev", "kmod", "linux-image-cloud-amd64", "qemu-system-x86"),
    *("dracut-core", "dracut-network", "isc-dhcp-client", "iputils-arping", "iproute2", "procps", "gawk"),
    *("cpio", "curl", "e2fsprogs"),
)
"""About 700 MB when they are unpacked, from Debian's mirror."""
BOOT_SECONDS: Final = 700
"""A boot takes half a minute of a processor without KVM; other tests run at the same time."""
_MODULES: Final = (
    "bash base systemd systemd-initrd dracut-systemd kernel-modules rootfs-block udev-rules fs-lib usrmount "
    "network-legacy network shutdown"
)
_DRIVERS: Final = "virtio_pci virtio_blk virtio_net ext4 crc32c_generic"
# On a busy host the kernel finds that QEMU's timer does not work, and panics: no_timer_check.
_KERNEL: Final = (
    "console=ttyS0 root=LABEL=sysroot rw panic=-1 quiet systemd.show_status=0 systemd.unit=multi-user.target "
    "random.trust_cpu=1 cryptomgr.notests no_timer_check"
)
_END: Final = """\
[Unit]
Description=Power off once the record is written
DefaultDependencies=no
[Service]
StandardOutput=journal+console
ExecStartPre=/bin/sh -c "echo took \
  $(systemctl show --value -p InitRDTimestampMonotonic -p UserspaceTimestampMonotonic) $(cat /proc/uptime)"
ExecStart=/bin/sh -c "while [ -e /run/service-record-initramfs ]; do sleep 0.2; done; \\
  systemctl --force poweroff"
"""


@dataclass
class Images:
    """Kernel, initrds and disk, in a directory of the tree with QEMU."""

    tree: Path
    kernel: Path
    plain: Path
    """An initrd without the recorder, and without curl."""
    with_module: Path
    """An initrd with dracut's module `service-record`."""
    disk: Path


@dataclass
class Boot:
    """A machine that runs."""

    process: "subprocess.Popen[bytes]"
    disk: Path
    console: bytearray = field(default_factory=bytearray)

    def wait_for(self, is_there: Callable[[], bool]) -> None:
        """Wait until a condition holds or the machine ends. Fails with the console when the time is up."""
        deadline = time.monotonic() + BOOT_SECONDS
        while not is_there():
            ended = self.process.poll() is not None
            assert time.monotonic() < deadline, self.console[-4000:].decode(errors="replace")
            if ended:
                return
            time.sleep(0.2)

    def says(self, text: str) -> bool:
        return text.encode() in self.console


def make_images(directory: Path) -> Images:
    """Make kernel, initrds and disk with the tools of the tree. Raises NoDebianError."""
    tree = rootfs(PACKAGES)
    images = tree / "images"
    with (tree.parent / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The recorder of this checkout goes into an initrd: they are made in each run.
        shutil.rmtree(images, ignore_errors=True)
        images.mkdir()
        place_package(Package.SHIM, tree)
        (kernel,) = (tree / "boot").glob("vmlinuz-*")
        version = kernel.name.removeprefix("vmlinuz-")
        for name, options in {"plain": "", "with-module": "--add service-record"}.items():
            _run_in(
                tree,
                f"dracut --quiet --force --no-hostonly --no-compress -m '{_MODULES}' --drivers '{_DRIVERS}' "
                f"{options} /images/{name} {version}",
            )
        _run_in(tree, _MAKE_ROOT)
        (images / "root/usr/lib/systemd/system/test-end.service").write_text(_END)
        _run_in(tree, "truncate -s 150M /images/disk && mkfs.ext4 -q -L sysroot -d /images/root /images/disk")
        plain, with_module, disk = (
            Path(shutil.copy(images / name, directory)) for name in ("plain", "with-module", "disk")
        )
        shutil.copy(kernel, directory / "kernel")
    return Images(tree, directory / "kernel", plain, with_module, disk)


_MAKE_ROOT: Final = """\
mkdir /images/root
cd /images/root
cpio --quiet -id </images/plain
rm -rf etc/initrd-release usr/lib/initrd-release etc/os-release usr/lib/os-release usr/lib/modules
cp /usr/lib/os-release usr/lib/
ln -s ../usr/lib/os-release etc/
mkdir -p usr/sbin var/log usr/lib/systemd/system/multi-user.target.wants
ln -sf ../lib/systemd/systemd usr/sbin/init
ln -s ../test-end.service usr/lib/systemd/system/multi-user.target.wants/
"""


def _run_in(tree: Path, script: str) -> None:
    """Run a script in the tree, with the devices and processes of this host in a mount namespace."""
    mounts = (
        'cd "$1" && mount -t proc proc proc && mount --rbind /dev dev && mount -t tmpfs tmpfs tmp && '
        'exec chroot . sh -ec "$2"'
    )
    command = ["unshare", "--mount", "sh", "-ec", mounts, "sh", str(tree), script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def boot(
    images: Images,
    directory: Path,
    *arguments: str,
    initrd: Path,
    appended: tuple[bytes, ...] = (),
    options: tuple[str, ...] = (),
) -> Iterator[Boot]:
    """Boot with an initrd, archives appended to it and arguments of the kernel; pull the plug afterwards.

    `options` are more of QEMU's.

    One machine runs at a time. The network of this host's loopback interface is 10.0.2.2.
    """
    whole = directory / "initrd"
    whole.write_bytes(b"".join([initrd.read_bytes(), *appended]))
    disk = Path(shutil.copy(images.disk, directory / "disk"))
    tree = images.tree
    libraries = ":".join(f"{tree}/{path}" for path in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"))
    command = [
        *(str(tree / "lib64/ld-linux-x86-64.so.2"), "--library-path", libraries),
        *(str(tree / "usr/bin/qemu-system-x86_64"), "-L", str(tree / "usr/share/qemu")),
        *("-L", str(tree / "usr/share/seabios"), "-cpu", "max", "-smp", "1", "-m", "512"),
        *("-nographic", "-no-reboot", "-netdev", "user,id=network"),
        *("-device", "virtio-net-pci,netdev=network,romfile="),
        *("-drive", f"file={disk},if=virtio,format=raw", "-kernel", str(images.kernel)),
        *("-initrd", str(whole), "-append", " ".join([_KERNEL, *arguments])),
        *options,
    ]
    with (tree.parent / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"QEMU_MODULE_DIR": str(tree / "usr/lib/x86_64-linux-gnu/qemu")},
        )
        running = Boot(process, disk)
        reader = threading.Thread(target=_read, args=(running, directory / "console"))
        reader.start()
        try:
            yield running
        finally:
            process.kill()
            process.wait()
            reader.join()


def _read(running: Boot, file: Path) -> None:
    """Keep the console, also in a file for whoever looks at a test that runs or has failed."""
    assert running.process.stdout is not None
    with file.open("wb", buffering=0) as copy:
        while data := os.read(running.process.stdout.fileno(), 1 << 16):
            running.console += data
            copy.write(data)


def read_file(images: Images, disk: Path, path: str) -> bytes:
    """Return a file of a machine's disk."""
    command = ["debugfs", "-R", f"cat {path}", str(disk)]
    return subprocess.run(command, check=True, capture_output=True).stdout
