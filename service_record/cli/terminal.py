"""Write answers to a terminal or a file: width, colour, glyphs and pager, and the forms of `--output`.

Also the redaction of what the command line writes. A new file never replaces another one.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from service_record.cli import LeakRefused, Unreadable
from service_record.cli.options import all_options, clock_options, color_option, pager_option
from service_record.display.text import Clock, Glyphs, Line, View, choose_glyphs, render_lines
from service_record.record.directory import Records, is_record_name
from service_record.record.visible import visible

if TYPE_CHECKING:  # few verbs mask anything
    from service_record.redaction import Rules, Secret


_MIN_WIDTH: Final = 60
_MAX_DIGITS: Final = 11
"""Digits of a time in seconds, up to the year 5138."""


def has_color(when: str, environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return True if `--color` and the environment allow colour; see no-color.org and force-color.org."""
    if when != "auto":
        return when == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"


def view(clock: str | None) -> View:
    """Return the view of standard output. Times are local on a terminal and UTC elsewhere by default."""
    width = shutil.get_terminal_size().columns
    natural = Clock.LOCAL if sys.stdout.isatty() else Clock.UTC
    return View(
        width=max(width, _MIN_WIDTH),
        clock=Clock(clock) if clock else natural,
        glyphs=choose_glyphs(sys.stdout.encoding or "ascii"),
        now=choose_time(os.environ),
    )


def choose_time(environment: Mapping[str, str]) -> datetime:
    """Return the present, or the time of `SOURCE_DATE_EPOCH`, so that the same records make the same page.

    See https://reproducible-builds.org/specs/source-date-epoch/.
    """
    seconds = environment.get("SOURCE_DATE_EPOCH", "")
    if seconds.isascii() and seconds.isdecimal() and len(seconds) <= _MAX_DIGITS:
        return datetime.fromtimestamp(int(seconds), UTC)
    return datetime.now(UTC)


def paint(lines: Iterable[Line], color: str) -> Iterator[str]:
    """Return the lines as text for standard output, coloured as `--color` says.

    Lets standard output escape characters that its encoding does not have.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return render_lines(lines, color=has_color(color, os.environ, is_terminal=sys.stdout.isatty()))


class OutputForm(msgspec.Struct, frozen=True):
    """The options for the output of a verb."""

    output: str
    clock: str | None
    color: str
    pager: bool

    def view(self) -> View:
        """Return the view of standard output."""
        return view(self.clock)

    def print(self, lines: Iterable[Line]) -> None:
        """Print lines. On a terminal, output that is longer than the screen goes to a pager."""
        texts = paint(lines, self.color)
        if self.pager and sys.stdout.isatty():
            rows = shutil.get_terminal_size().lines
            screen = list(islice(texts, rows))
            texts = chain(screen, texts)
            if len(screen) == rows:
                click.echo_via_pager(texts, color=has_color(self.color, os.environ, is_terminal=True))
                return
        sys.stdout.writelines(texts)


def display_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the display, and pass them and `--output` as one argument, `form`."""

    @wraps(function)
    def call(*args: Any, output: str, clock: str | None, color: str, pager: bool, **options: Any) -> Any:
        return function(*args, form=OutputForm(output, clock, color, pager), **options)

    relative = click.option("--relative", "clock", flag_value="relative", help="Times as ages: 3m 2s ago.")
    return all_options(*clock_options, relative, color_option, pager_option)(call)


class Answer(msgspec.Struct, frozen=True):
    """Base of the answers of verbs. Each method imports what only its format needs."""

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        """Return the lines of `table`, or of `wide`."""
        raise NotImplementedError

    def page(self, view: View) -> str:
        """Return the page of `html`."""
        raise NotImplementedError

    def document(self) -> object:
        """Return the document of `json` and `yaml`."""
        raise NotImplementedError

    def documents(self) -> Iterable[object]:
        """Return the documents of `jsonl`, one a line."""
        raise NotImplementedError

    def write_json(self, stream: IO[bytes]) -> None:
        """Write the document of `json`."""
        from service_record.display.machine import format_json

        stream.write(format_json(self.document()).encode())

    def write_jsonl(self, stream: IO[bytes]) -> None:
        """Write the lines of `jsonl`."""
        from service_record.display.machine import encode_document

        stream.writelines(f"{encode_document(one)}\n".encode() for one in self.documents())


def emit(answer: Answer, form: OutputForm) -> None:
    """Write an answer to standard output in the format that the user chose."""
    match form.output:
        case "table" | "wide":
            form.print(answer.lines(form.view(), is_wide=form.output == "wide"))
        case "html":
            # A browser shows every glyph, whatever the encoding of this terminal is.
            write_page(answer.page(msgspec.structs.replace(form.view(), glyphs=Glyphs())))
        case "jsonl":
            answer.write_jsonl(sys.stdout.buffer)
        case "yaml":
            from service_record.display.machine import format_yaml

            sys.stdout.buffer.write(format_yaml(answer.document()).encode())
        case _:
            answer.write_json(sys.stdout.buffer)


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return a table with columns as wide as their widest cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{line.rstrip()}\n" for line in lines)


_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FILE_MODE: Final = 0o640


def check_new(path: Path) -> None:
    """Raise a usage error if the file exists already, or would be among this host's records."""
    if os.path.lexists(path):
        raise click.UsageError(f"{visible(str(path))} exists, and nothing is overwritten; name another place")
    if is_record_name(path.name) and path.parent.resolve() == Records().directory.resolve():
        raise click.UsageError(f"{visible(str(path))} would be a record of this host; name another place")


def write_new(path: Path, chunks: Iterable[bytes], mode: int = _FILE_MODE) -> None:
    """Write a new file; by default it has the mode of a record. After an error, no part of it is left.

    Raises OSError, such as FileExistsError.
    """
    descriptor = os.open(path, _NEW, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(chunks)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


_Data = TypeVar("_Data", str, bytes)
_MAX_SECRETS_BYTES: Final = 8 << 20


def read_secrets(files: Iterable[Path]) -> "tuple[Secret, ...]":
    """Return the secrets in these files: the content of each file, and the secrets within it."""
    return tuple(secret for file in files for secret in _read_file_secrets(file))


def _read_file_secrets(file: Path) -> "Iterator[Secret]":
    from service_record.redaction import Secret
    from service_record.redaction.host_secrets import Contents

    with file.open("rb") as stream:
        data = stream.read(_MAX_SECRETS_BYTES + 1)
    if len(data) > _MAX_SECRETS_BYTES:
        raise Unreadable(f"{visible(str(file))}: too large for a file of secrets")
    yield Secret("given", data.strip())
    yield from Contents().secrets(data)


def make_rules(files: Iterable[Path]) -> "Rules":
    """Return the redaction rules of this host, with the secrets in these files."""
    from service_record.redaction import Rules, known_secrets

    return Rules((*known_secrets(Path("/"), os.environ).secrets, *read_secrets(files)))


def write_page(page: str) -> None:
    """Write an HTML page to standard output without secrets, since pages are given to others."""
    from service_record.redaction import outgoing_page

    sys.stdout.buffer.write(_mask(page, outgoing_page).encode())


def mask_secrets(data: bytes) -> bytes:
    """Return data without the secrets of this host. Raises LeakRefused if a secret is left."""
    from service_record.redaction import outgoing

    return _mask(data, outgoing)


def _mask(data: _Data, outgoing: Callable[[_Data, "Rules"], _Data]) -> _Data:
    from service_record.redaction import LeakError

    try:
        return outgoing(data, make_rules(()))
    except LeakError as leak:
        raise LeakRefused(f"refused: {leak}") from None
