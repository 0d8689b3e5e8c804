"""`make install`: write the files of `service-record install` into a directory tree, such as a package's.

It keeps no list of installed files and overwrites existing ones. Man pages and completions need click and
markdown-it, and are left out without them. Everything else needs the standard library only.
"""

import argparse
import gzip
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final

from service_record.deploy.delivered import HOST, SCRIPTS, Item, Layout, Option, choose_layout, contents

_PAGES_OF_THE_SHIM: Final = (*(f"man/man1/{name}.1" for name in SCRIPTS), "man/man5/service-record.5")


class Package(Enum):
    """The packages of `make deb` and `make rpm`, by name."""

    SHIM = "service-record-shim"
    """The files that services record with: shim, exit helper, drop-ins to copy, records directory."""
    COMMAND = "service-record"
    """The standalone executable, its man pages and completions; the boot reporter's units run it."""


def items_of(package: Package, layout: Layout, pages: Iterable[tuple[str, str]]) -> tuple[Item, ...]:
    """Return the files and links of a package, without the executable."""
    everything = list(pages)
    of_shim = contents({Option.SHIM}, layout, [page for page in everything if page[0] in _PAGES_OF_THE_SHIM])
    if package is Package.SHIM:
        return of_shim
    items = contents({Option.SHIM, Option.REPORTER}, layout, everything)
    return tuple(item for item in items if item not in of_shim)


def place_package(package: Package, root: Path, executable: Path | None = None) -> None:
    """Write the files of a package below /usr in a tree, and the executable if it is given."""
    layout = choose_layout("/usr")
    for item in items_of(package, layout, made_of_the_command_line()):
        place(_compressed(item) if "/man/" in item.path else item, root)
    if executable:
        program = Item(f"{layout.programs}/service-record", Option.SHIM, executable.read_bytes(), 0o755)
        place(program, root)


def _compressed(page: Item) -> Item:
    return replace(page, path=f"{page.path}.gz", data=gzip.compress(page.data, 9, mtime=0))


def made_of_the_command_line() -> Iterator[tuple[str, str]]:
    """Yield the man pages and completions, if their generator is installed."""
    try:
        from packages.manual import pages
        from service_record.cli import main

        yield from pages(main)
    except ModuleNotFoundError as error:
        print(f"No {error.name} (make man gets it): man pages and completions are left out.", file=sys.stderr)


def place(item: Item, root: Path) -> None:
    """Write a file or link, and rename it into place: the tree may be that of this host."""
    path = root / item.path.lstrip("/")
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.part")
    new.unlink(missing_ok=True)
    if item.target is not None:
        new.symlink_to(item.target)
    else:
        new.write_bytes(item.data)
        new.chmod(item.mode)
    new.replace(path)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m packages.stage", description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--prefix", default=HOST.prefix)
    parser.add_argument("--pages", action="store_true", help="only man pages and completions, into ROOT")
    parser.add_argument("--package", type=Package, help="the files of a package below /usr, into ROOT")
    parser.add_argument(
        "--executable", type=Path, help="what `make standalone` made, into the package of the command"
    )
    for option in Option:
        parser.add_argument(f"--{option.value}", dest="options", action="append_const", const=option)
    chosen = parser.parse_args(arguments)
    if chosen.pages:
        for path, text in made_of_the_command_line():
            place(Item(f"/{path}", Option.SHIM, text.encode()), chosen.root)
        return
    if chosen.package:
        place_package(chosen.package, chosen.root, chosen.executable)
        return
    options = {Option.SHIM, *(chosen.options or ())}
    for item in contents(options, choose_layout(chosen.prefix), made_of_the_command_line()):
        place(item, chosen.root)


if __name__ == "__main__":
    main(sys.argv[1:])
