"""`make man`: write the pages of the manual, and what shells complete with, as they are to be installed."""

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from click.shell_completion import get_completion_class

from manual import markdown, verbs
from service_record.cli import main as command
from service_record.version import __version__

DOCS = Path(__file__).resolve().parents[1] / "docs"
COMPLETIONS = {
    "bash": "bash-completion/completions/service-record",
    "zsh": "zsh/site-functions/_service-record",
    "fish": "fish/vendor_completions.d/service-record.fish",
}
"""Where each shell, or its package of completions, looks below PREFIX/share."""


def files() -> Iterator[tuple[str, str]]:
    """Path below PREFIX/share, and content."""
    made = float(os.environ.get("SOURCE_DATE_EPOCH") or datetime.now(UTC).timestamp())
    date = datetime.fromtimestamp(made, UTC).date().isoformat()
    for name, page in verbs.pages(date, (DOCS / "cli.md").read_text()):
        yield f"man/man1/{name}.1", page
    document = (DOCS / "record-format.md").read_text()
    version = f"{verbs.PROGRAM} {__version__}"
    yield "man/man5/service-record.5", markdown.page(document, verbs.PROGRAM, 5, date, version)
    for shell, path in COMPLETIONS.items():
        completion = get_completion_class(shell)
        assert completion is not None, shell
        yield path, completion(command, {}, verbs.PROGRAM, "_SERVICE_RECORD_COMPLETE").source()


def main(directory: Path) -> None:
    for path, content in files():
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        place.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
