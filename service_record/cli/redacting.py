"""What redaction is made with on the command line, and what leaves there without secrets."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from service_record.cli import REFUSED
from service_record.cli.inputs import Unreadable
from service_record.record.visible import visible
from service_record.redaction import Rules, Secret, known_secrets
from service_record.redaction.host_secrets import Contents
from service_record.redaction.redactor import LeakError, outgoing

_MASK = re.compile(rb"<(redacted:[a-z0-9-]+)>")
_MAX_BYTES = 8 << 20


def secrets_in(files: Iterable[Path]) -> tuple[Secret, ...]:
    """Return the secrets in files that somebody named: each as a whole, and what is in it."""
    return tuple(secret for file in files for secret in _secrets_in(file))


def _secrets_in(file: Path) -> Iterator[Secret]:
    with file.open("rb") as stream:
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise Unreadable(f"{visible(str(file))}: too large for a file of secrets")
    yield Secret("given", data.strip())
    yield from Contents().secrets(data)


def rules_with(files: Iterable[Path]) -> Rules:
    """Return the rules of this host, and of the secrets in these files."""
    return Rules((*known_secrets(Path("/"), os.environ).secrets, *secrets_in(files)))


def write_page(page: str) -> None:
    """Write a page of HTML to standard output, without secrets: it is made to be given to others."""
    masked = without_secrets(page.encode())
    sys.stdout.buffer.write(_MASK.sub(rb"&lt;\1&gt;", masked))


def without_secrets(data: bytes) -> bytes:
    """Return data without the secrets of this host. Ends the program where one is left in it."""
    try:
        return outgoing(data, rules_with(()))
    except LeakError as leak:
        click.echo(f"Error: refused: {leak}", err=True)
        raise click.exceptions.Exit(REFUSED) from None
