"""`service-record validate`: list the damage in records, and save their undamaged entries."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO, Final, cast

import click

from service_record.bundle import HEAD_BYTES, Bundle, is_packed, open_bundle
from service_record.cli import DAMAGED, UNREADABLE, Unreadable, system_error_line
from service_record.cli.options import output_option
from service_record.cli.shared_answers import RowsAnswer
from service_record.cli.terminal import Answer, OutputForm, check_new, display_options, emit, write_new
from service_record.display.text import Ink, Line, View
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
    checks = _Checks(places, _list_files(places), salvage)
    emit(_Damage(checks.faults()), form)
    if checks.has_unreadable:
        raise click.exceptions.Exit(UNREADABLE)
    if checks.has_faults:
        raise click.exceptions.Exit(DAMAGED)


class _Damage(Answer, frozen=True):
    """The file, line and reason of each fault. A table has a fault as soon as it is found."""

    faults: Iterator[tuple[str, int, str]]

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:  # noqa: ARG002  # no line is cut
        for name, line, reason in self.faults:
            yield ((f"{name}:{line}: {reason}", Ink.PLAIN),)

    def page(self, view: View) -> str:
        return self._rows().page(view)

    def document(self) -> object:
        return self._rows().document()

    def documents(self) -> Iterable[object]:
        return self._rows().documents()

    def _rows(self) -> RowsAnswer:
        return RowsAnswer("Damage in records", ("file", "line", "reason"), list(self.faults))


@dataclass(slots=True)
class _Checks:
    """The check of all files. Faults are yielded; errors and notes are printed."""

    places: Sequence[str]
    """Files and directories that the user named."""
    files: Sequence[str]
    salvage: Path | None
    """The new file for the undamaged entries."""
    has_faults: bool = False
    has_unreadable: bool = False

    def faults(self) -> Iterator[tuple[str, int, str]]:
        """Check all files; yield the file, line and reason of each fault."""
        for name, fault in self._check_files():
            self.has_faults = True
            yield visible(name), fault.line, visible(fault.reason)

    def _check_files(self) -> Iterator[tuple[str, FormatFault]]:
        for name in self.files:
            try:
                yield from self._check_file(name)
            except BrokenPipeError:
                raise
            except (OSError, ForeignError) as error:
                self.has_unreadable = True
                text = system_error_line(error) if isinstance(error, OSError) else visible(str(error))
                click.echo(f"Error: {text}", err=True)
        for leftover in _find_beside(self.places, UNFINISHED_SUFFIX):
            yield str(leftover), _UNFINISHED
        for copy in _find_beside(self.places, DAMAGED_SUFFIX):
            _report_damaged_copy(str(copy))

    def _check_file(self, name: str) -> Iterator[tuple[str, FormatFault]]:
        """Yield the faults of a file. Raises OSError, and ForeignError for neither a bundle nor a record.

        A file that the user names may be a link, and need not be a record. A file in a directory of records
        must not be a link, and counts as a record, however damaged.
        """
        is_named = name in self.places
        with _open_record(name, is_named=is_named) as stream:
            is_bundle = is_packed(stream.read(HEAD_BYTES))
            stream.seek(0)
            bundle = open_bundle(stream) if is_bundle else None
            if bundle is not None and bundle.unpacked is None:
                if self.salvage is not None:
                    raise click.UsageError(_ONE_RECORD)
                yield from _bundle_faults(name, bundle)
            else:
                record = stream if bundle is None else BytesIO(bundle.unpacked or b"")
                if is_named and self.salvage is None:  # entries are saved from any damaged file
                    refuse_foreign(name, read_entries(record))
                    record.seek(0)
                for fault in self._record_faults(record):
                    yield name, fault
        if bundle is None:
            return
        for part in bundle.left_out:
            click.echo(f"Error: {visible(str(part.within(name)))}", err=True)
        if not bundle.records and bundle.unpacked is None:
            click.echo(f"Error: {visible(name)}: an archive without records", err=True)
            self.has_unreadable = True
        self.has_unreadable |= bool(bundle.left_out)

    def _record_faults(self, record: BinaryIO) -> Iterable[FormatFault]:
        """Return the faults of a record, and save its entries if the user wants that."""
        if self.salvage is None:
            return _only_faults(record)
        faults: list[FormatFault] = []

        def entries() -> Iterator[Entry]:
            for piece in examine(record):
                if isinstance(piece, FormatFault):
                    faults.append(piece)
                else:
                    yield piece

        write_new(self.salvage, FORMS["array" if is_array(record) else "jsonl"](entries()))
        return faults


def _only_faults(record: BinaryIO) -> Iterator[FormatFault]:
    return (piece for piece in examine(record) if isinstance(piece, FormatFault))


def _list_files(places: Iterable[str]) -> list[str]:
    """Return the files to read. A directory stands for its records, sorted by name."""
    names = []
    for place in places:
        if not Path(place).is_dir():
            names.append(place)
            continue
        directory = _directory(place)
        services = Records(directory).services()
        if not services and not _find_beside([place], UNFINISHED_SUFFIX):
            raise Unreadable(
                f"no records in {visible(place)}: no *.json file there; "
                "give a record, a directory of records or a bundle"
            )
        names += [str(directory / f"{service}.json") for service in services]
        for link in Records(directory).links():
            click.echo(f"Warning: {visible(str(link))}: a symbolic link, which is not followed", err=True)
    return names


def _find_beside(places: Iterable[str], suffix: str) -> list[Path]:
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


def _report_damaged_copy(copy: str) -> None:
    """Print a note about a copy of damaged bytes. It is not a fault: its record was repaired."""
    click.echo(f"Note: {visible(copy)}: what was damaged in the record beside it", err=True)


def _directory(place: str) -> Path:
    try:
        return records_directory(Path(place))
    except SourceError as error:
        raise Unreadable(visible(str(error))) from None


def _bundle_faults(name: str, bundle: Bundle) -> Iterator[tuple[str, FormatFault]]:
    for service, record in bundle.records.items():
        member = f"{name}:{record.path}"
        for fault in _only_faults(BytesIO(record.data)):
            yield member, fault
        if record.damage:
            yield member, FormatFault(record.data.count(b"\n") + 1, record.damage)
        if service in bundle.unfinished:
            yield member + UNFINISHED_SUFFIX, _UNFINISHED
    for copy in bundle.damaged.values():
        _report_damaged_copy(f"{name}:{copy.path}")


@contextmanager
def _open_record(name: str, *, is_named: bool) -> Iterator[BufferedReader]:
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
