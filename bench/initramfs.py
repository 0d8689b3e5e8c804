"""`make bench-initramfs`: how much longer a boot takes with dracut's module; it goes into docs/initramfs.md.

Boots Debian's kernel in QEMU with an initrd without the module, with it, and with it while it records, in
turn. QEMU counts instructions in place of time, so that a busy host does not change the result: a processor
that executes 500 million instructions in a second, which is slow for a server. It needs root and debootstrap,
and takes a quarter of an hour.
"""

import re
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from bench.table import aligned, replace_between
from testing.debian import NoDebianError
from testing.virtual_machine import Images, boot, make_images

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "initramfs.md"
ROUNDS: Final = 5
COUNTED: Final = ("-icount", "shift=1")
"""Two nanoseconds for each instruction."""
CONFIGURED: Final = ("service_record.url=http://10.0.2.2:9",)
HEAD: Final = ("initrd", "in the initramfs", "more", "from the kernel's start to multi-user.target", "more")
_TOOK: Final = rb"took (\d+) (\d+) ([\d.]+) "

Measured = tuple[float, float]
"""Seconds in the initramfs, and from the start of the kernel until the real root has booted."""


def measure(images: Images, initrd: Path, arguments: tuple[str, ...]) -> Measured:
    with tempfile.TemporaryDirectory(prefix="service-record-boot-") as name:
        with boot(images, Path(name), *arguments, initrd=initrd, options=COUNTED) as running:
            running.wait_for(lambda: False)
        took = re.search(_TOOK, bytes(running.console))
        if took is None:
            raise ValueError(f"the boot failed: {running.console[-2000:].decode(errors='replace')}")
    return (int(took[2]) - int(took[1])) / 1e6, float(took[3])


def measured(images: Images) -> str:
    """Return the table."""
    variants = (
        ("without the module", images.plain, ()),
        ("with the module, not configured", images.with_module, ()),
        ("with the module, records", images.with_module, CONFIGURED),
    )
    rounds = [
        [measure(images, initrd, arguments) for _, initrd, arguments in variants] for _ in range(ROUNDS)
    ]
    rows: list[tuple[str, ...]] = [HEAD]
    for number, (what, *_) in enumerate(variants):
        cells = [what]
        for place in (0, 1):
            cells.append(f"{median(each[number][place] for each in rounds):.2f} s")
            more = [each[number][place] - each[0][place] for each in rounds]
            cells.append(f"{median(more):+.2f} s ({min(more):+.2f} to {max(more):+.2f})" if number else "")
        rows.append(tuple(cells))
    return aligned(rows)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="service-record-images-") as name:
        try:
            images = make_images(Path(name))
        except NoDebianError as error:
            print(f"bench-initramfs: {error}", file=sys.stderr)
            return 1
        text = measured(images)
    print(text)
    replace_between(PAGE, "boots", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
