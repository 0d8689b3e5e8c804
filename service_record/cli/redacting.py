"""What redaction is made with on the command line, and copies of what others gathered."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import click

from service_record.bundle import HEAD_BYTES, LeftOut, Limits, is_packed
from service_record.bundle.contents import Content, archive_contents, directory_contents
from service_record.cli import REFUSED
from service_record.cli.inputs import Unreadable
from service_record.read.foreign import ForeignError, refuse_unpacked
from service_record.record.visible import visible
from service_record.redaction import Rules, Secret, known_secrets
from service_record.redaction.host_secrets import Contents
from service_record.redaction.outgoing import LeakError, outgoing
from service_record.reporter.bundling import Copied, make_copy

_STANDARD_INPUT = "-"
_MASK = re.compile(rb"<(redacted:[a-z0-9-]+)>")
_MAX_BYTES = 8 << 20
_LIMITS = Limits(read_bytes=16 << 30)
"""As much as is looked through once more. Whoever wants to give it away reads it, and it costs only time."""


def secrets_in(files: Iterable[Path]) -> tuple[Secret, ...]:
    """The secrets in files that somebody named: each as a whole, and what is in it."""
    return tuple(secret for file in files for secret in _secrets_in(file))


def _secrets_in(file: Path) -> Iterator[Secret]:
    with file.open("rb") as stream:
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise Unreadable(f"{visible(str(file))}: too large for a file of secrets")
    yield Secret("given", data.strip())
    yield from Contents().secrets(data)


def rules_with(files: Iterable[Path]) -> Rules:
    """The rules of this host, and of the secrets in these files."""
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


def copied(place: str, path: Path, rules: Rules, at: datetime, most_bytes: int) -> Copied:
    """A copy without secrets of a bundle, a directory or standard input; what is not in it is told.

    Raises OSError, and Unreadable where there is nothing.
    """
    made = make_copy(_contents(place, at, path), path, rules, mtime=at.timestamp(), most_bytes=most_bytes)
    if not made.members:
        raise Unreadable(f"nothing to read in {visible(place)}")
    return made


def _refuse_unpacked(place: str, head: bytes) -> None:
    try:
        refuse_unpacked(place, head)
    except ForeignError as error:
        raise Unreadable(visible(str(error))) from None


def _contents(place: str, at: datetime, copy: Path) -> Iterator[Content]:
    def leave(part: LeftOut) -> None:
        click.echo(f"Warning: {visible(str(part.within(place)))}", err=True)

    if place == _STANDARD_INPUT:
        with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) as stream:
            yield from archive_contents(stream, "stdin", at.timestamp(), leave, _LIMITS)
        return
    source = Path(place)
    if source.is_dir():
        top = source.resolve().name
        for content in directory_contents(source, leave, _LIMITS, without=copy):
            yield Content(f"{top}/{content.path}" if top else content.path, content.written, content.read)
        return
    with source.open("rb") as stream:
        head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
        if not is_packed(head):
            _refuse_unpacked(place, head)
        yield from archive_contents(stream, source.name, source.stat().st_mtime, leave, _LIMITS)
