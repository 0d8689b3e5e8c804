"""`make examples`: run the host of each example under a real systemd, and keep its records as an example."""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from examples.host import Host, keep, keep_packed
from examples.scenes import EXAMPLES, PACKED
from testing.machine import REPOSITORY, BootError, why_not

OUTPUT: Final = REPOSITORY / "docs" / "examples"


def make(name: str, into: Path = OUTPUT) -> None:
    """Run the host of one example, and keep its records."""
    with tempfile.TemporaryDirectory(prefix="service-record-example-") as root:
        host = Host(Path(root), is_like_upstream=name in PACKED)
        EXAMPLES[name](host)
        if name in PACKED:
            keep_packed(host.gathered, into / f"{name}.tar.gz")
        else:
            keep(host.gathered, into / name)


def main(names: list[str]) -> None:
    """Make these examples, by default all: two at a time, the one that takes half an hour first."""
    unknown = set(names) - set(EXAMPLES)
    if unknown:
        sys.exit(f"examples: there is no {', '.join(sorted(unknown))}; there are {', '.join(EXAMPLES)}")
    obstacle = why_not()
    if obstacle is not None:
        sys.exit(f"examples: no systemd to boot here: {obstacle}")
    chosen = sorted(names or EXAMPLES, key=lambda name: name != "stuck")
    failed = []
    with ThreadPoolExecutor(2) as pool:
        for name, task in [(name, pool.submit(make, name)) for name in chosen]:
            try:
                task.result()
            except BootError as error:
                failed.append(f"examples: {name}: {error}")
            else:
                sys.stderr.write(f"{name}\n")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
