"""`service-record validate`: list the damage in records, and save their undamaged entries."""

import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO, Final, cast

import click

from service_record.bundle import HEAD_BYTES, Bundle, is_packed, open_bundle
from service_record.cli import DAMAGED, UNREADABLE, Unreadable, system_error_line
from service_record.cli.options import output_option
from service_record.cli.shared_answers import RowsAnswer
from service_record.cli.terminal import (
    OutputForm,
    check_new,
    display_options,
    emit,
    escape_what_cannot_be_encoded,
    write_new,
)
from service_record.export import FORMS
from service_record.read.examples import resolve_example
from service_record.read.source import ForeignError, SourceError, beside, records_directory, refuse_foreign
from service_record.record.appending import DAMAGED_SUFFIX
from service_record.record.conformance import FormatFault, examine, is_array
from service_record.record.directory import UNFINISHED_SUFFIX, Records, open_record
from service_record.record.entry import Entry
from service_record.record.holes import without_holes
from service_record.record.layout import read_entries
from service_record.record.visible import visible

_STANDARD_INPUT: Final = "-"
_ONE_RECORD: Final = "--salvage takes one record, FILE"
_UNFINISHED: Final = FormatFault(1, "left by a write that did not end; it may have a newer entry")


@click.command("validate")
@click.argument("places", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--salvage",
    metavar="OUT",
    type=click.Path(path_type=Path),
    help="Write every whole entry of the one FILE to this new file, in its layout.",
)
@output_option(about="table, wide: a line for each fault")
@display_options
def command(*, places: tuple[str, ...], salvage: Path | None, form: OutputForm) -> None:
    """Say what is damaged in records, and save what is whole.

    FILE is a record, a directory or bundle of records, or - for standard input. A fault is a line: file,
    line in the file, reason. Nothing is said of a record that is whole.

    \b
    Examples:
      service-record validate /var/log/openshift
      service-record validate bootkube.json --salvage whole.json
      service-record validate example:failed-stage
    """
    places = tuple(map(resolve_example, places))
    if salvage is not None:
        if len(places) != 1 or Path(places[0]).is_dir():
            raise click.UsageError(_ONE_RECORD)
        check_new(salvage)
    escape_what_cannot_be_encoded()
    damage = _FaultPrinter(prints=form.output in {"table", "wide"})
    may_be_foreign = places if salvage is None else ()  # entries are saved from any damaged file
    are_readable = [
        _read(name, damage, salvage, is_named=name in places, may_be_foreign=name in may_be_foreign)
        for name in _names(places)
    ]
    for leftover in _beside(places, UNFINISHED_SUFFIX):
        damage.tell(str(leftover), _UNFINISHED)
    for copy in _beside(places, DAMAGED_SUFFIX):
        _note(str(copy))
    if not damage.prints:
        emit(RowsAnswer("Damage in records", ("file", "line", "reason"), damage.faults), form)
    if not all(are_readable):
        raise click.exceptions.Exit(UNREADABLE)
    if damage.is_found:
        raise click.exceptions.Exit(DAMAGED)


class _FaultPrinter:
    """Prints each fault when it is found, a line each, or keeps them all for a document."""

    def __init__(self, *, prints: bool) -> None:
        self.prints = prints
        self.is_found = False
        self.faults: list[tuple[str, int, str]] = []

    def tell(self, name: str, fault: FormatFault) -> None:
        self.is_found = True
        if self.prints:
            sys.stdout.write(f"{visible(name)}:{fault.line}: {visible(fault.reason)}\n")
        else:
            self.faults.append((visible(name), fault.line, visible(fault.reason)))

    def entries_of(self, name: str, pieces: Iterable[Entry | FormatFault]) -> Iterator[Entry]:
        """Yield the entries among the pieces, and print the faults."""
        for piece in pieces:
            if isinstance(piece, FormatFault):
                self.tell(name, piece)
            else:
                yield piece


def _names(places: Iterable[str]) -> list[str]:
    """Return the files to read. A directory stands for its records, sorted by name."""
    names = []
    for place in places:
        if not Path(place).is_dir():
            names.append(place)
            continue
        directory = _directory(place)
        services = Records(directory).services()
        if not services and not _beside([place], UNFINISHED_SUFFIX):
            raise Unreadable(
                f"no records in {visible(place)}: no *.json file there; "
                "give a record, a directory of records or a bundle"
            )
        names += [str(directory / f"{service}.json") for service in services]
        for link in Records(directory).links():
            click.echo(f"Warning: {visible(str(link))}: a symbolic link, which is not followed", err=True)
    return names


def _beside(places: Iterable[str], suffix: str) -> list[Path]:
    """Return the files with the name of a record and this suffix, with or without the record itself."""
    files: list[Path] = []
    for place in places:
        if Path(place).is_dir():
            directory = _directory(place)
            files += (
                path
                for path in sorted(directory.glob(f"*.json{suffix}"))
                if path.is_file() and not path.is_symlink()
            )
        elif place != _STANDARD_INPUT and (path := beside(Path(place), suffix)):
            files.append(path)
    return files


def _note(copy: str) -> None:
    """Report a copy of damaged bytes. It is not a fault, because its record was repaired."""
    click.echo(f"Note: {visible(copy)}: what was damaged in the record beside it", err=True)


def _directory(place: str) -> Path:
    try:
        return records_directory(Path(place))
    except SourceError as error:
        raise Unreadable(visible(str(error))) from None


def _read(
    name: str, damage: _FaultPrinter, salvage: Path | None, *, is_named: bool, may_be_foreign: bool
) -> bool:
    """Report the faults in a file and save its entries. Return False after an error, which is printed.

    A file that the user names may be a link, and need not be a record. A file in a directory of records must
    not be a link, and counts as a record, however damaged.
    """
    try:
        with _opened(name, is_named=is_named) as stream:
            bundle = _bundle_in(stream)
            if bundle is None:
                _check_file(name, stream, damage, salvage, may_be_foreign=may_be_foreign)
            elif bundle.unpacked is not None:
                _check_file(name, BytesIO(bundle.unpacked), damage, salvage, may_be_foreign=may_be_foreign)
            elif salvage is not None:
                raise click.UsageError(_ONE_RECORD)
            else:
                _check_bundle(name, bundle, damage)
    except BrokenPipeError:
        raise
    except OSError as error:
        click.echo(f"Error: {system_error_line(error)}", err=True)
        return False
    except ForeignError as error:
        click.echo(f"Error: {visible(str(error))}", err=True)
        return False
    return bundle is None or not _report_unread_parts(name, bundle)


def _check_file(
    name: str, stream: BinaryIO, damage: _FaultPrinter, salvage: Path | None, *, may_be_foreign: bool
) -> None:
    """Check the one record of a file. Raises ForeignError if a named file is neither a bundle nor a
    record.
    """
    if may_be_foreign:
        refuse_foreign(name, read_entries(stream))
        stream.seek(0)
    _check(name, stream, damage, salvage)


def _check(name: str, stream: BinaryIO, damage: _FaultPrinter, salvage: Path | None = None) -> None:
    entries = damage.entries_of(name, examine(stream))
    if salvage is None:
        deque(entries, maxlen=0)
    else:
        form = "array" if is_array(stream) else "jsonl"
        write_new(salvage, FORMS[form](entries))


def _check_bundle(name: str, bundle: Bundle, damage: _FaultPrinter) -> None:
    for service, record in bundle.records.items():
        member = f"{name}:{record.path}"
        _check(member, BytesIO(record.data), damage)
        if record.damage:
            damage.tell(member, FormatFault(record.data.count(b"\n") + 1, record.damage))
        if service in bundle.unfinished:
            damage.tell(member + UNFINISHED_SUFFIX, _UNFINISHED)
    for copy in bundle.damaged.values():
        _note(f"{name}:{copy.path}")


def _report_unread_parts(name: str, bundle: Bundle) -> bool:
    """Report the parts of a bundle that could not be read; return True if there are any."""
    for part in bundle.left_out:
        click.echo(f"Error: {visible(str(part.within(name)))}", err=True)
    if not bundle.records and bundle.unpacked is None:
        click.echo(f"Error: {visible(name)}: an archive without records", err=True)
        return True
    return bool(bundle.left_out)


@contextmanager
def _opened(name: str, *, is_named: bool) -> Iterator[BufferedReader]:
    """Yield the bytes of a record; input that can be read only once is kept in a file meanwhile."""
    if name == _STANDARD_INPUT:
        descriptor = os.dup(sys.stdin.fileno())
    else:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC) if is_named else open_record(name)
    with without_holes(descriptor) as stream:
        if stream.seekable():
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(stream, copy)
            copy.seek(0)
            yield cast("BufferedReader", copy)


def _bundle_in(stream: BufferedReader) -> Bundle | None:
    """Return the bundle in a packed file; None for any other file, which is at its beginning afterwards."""
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    return open_bundle(stream) if is_packed(head) else None
