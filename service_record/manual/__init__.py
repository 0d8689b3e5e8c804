"""Man pages and shell completions, made of what the command line and its documents say already."""

from collections.abc import Iterator
from typing import Final

import click
from click.shell_completion import get_completion_class

from service_record.deploy.contents import source
from service_record.manual import markdown, verbs
from service_record.version import RELEASED, __version__

COMPLETIONS: Final = {
    "bash": "bash-completion/completions/service-record",
    "zsh": "zsh/site-functions/_service-record",
    "fish": "fish/vendor_completions.d/service-record.fish",
}
"""Where each shell, or its package of completions, looks below PREFIX/share."""

_DOCUMENTS: Final = (
    ("record-format.md", verbs.PROGRAM, 5),
    ("shell.md", "bootstrap-service-record.sh", 1),
    ("shell.md", "service-record-exit.sh", 1),
)
"""Documents that are pages: of which name, in which section."""


def pages(command: click.Group) -> Iterator[tuple[str, str]]:
    """Path below PREFIX/share, and text. Raises FileNotFoundError where a document is missing."""
    for name, page in verbs.pages(command, _document("cli.md")):
        yield f"man/man1/{name}.1", page
    version = f"{verbs.PROGRAM} {__version__}"
    for document, name, number in _DOCUMENTS:
        page = markdown.page(_document(document), name, number, RELEASED, version)
        yield f"man/man{number}/{name}.{number}", page
    for shell, path in COMPLETIONS.items():
        completion = get_completion_class(shell)
        if completion is None:
            raise LookupError(f"click completes nothing in {shell}")
        yield path, completion(command, {}, verbs.PROGRAM, "_SERVICE_RECORD_COMPLETE").source()


def _document(name: str) -> str:
    return source(f"docs/{name}").decode()
