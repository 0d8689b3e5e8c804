"""`make install`: what `service-record install` puts onto a host, into a tree that somebody else will own.

Plain writing: no note of what is installed, and no file is kept. Without click and markdown-it the pages
that are made of the command line are left out; all else needs the standard library only.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from service_record.deploy.contents import HOST, Item, Option, below, contents


def made_of_the_command_line() -> Iterator[tuple[str, str]]:
    """The man pages and completions, where what makes them is installed."""
    try:
        from service_record.cli import main  # noqa: PLC0415
        from service_record.manual import pages  # noqa: PLC0415

        yield from pages(main)
    except ModuleNotFoundError as error:
        print(f"No {error.name} (make man gets it): man pages and completions are left out.", file=sys.stderr)


def place(item: Item, root: Path) -> None:
    """Put it into the place of what is there, by renaming: the tree may be the one of this host."""
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
    for option in Option:
        parser.add_argument(f"--{option.value}", dest="options", action="append_const", const=option)
    chosen = parser.parse_args(arguments)
    if chosen.pages:
        for path, text in made_of_the_command_line():
            place(Item(f"/{path}", Option.SHIM, text.encode()), chosen.root)
        return
    options = {Option.SHIM, *(chosen.options or ())}
    for item in contents(options, below(chosen.prefix), made_of_the_command_line()):
        place(item, chosen.root)


if __name__ == "__main__":
    main(sys.argv[1:])
