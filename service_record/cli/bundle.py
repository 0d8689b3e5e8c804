"""`service-record bundle`: gather the files that explain this host into an archive without its secrets."""

import os
import platform
import re
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

import click

from service_record.bundle import HEAD_BYTES, LeftOut, Limits, is_packed
from service_record.bundle.archive import DISK_BYTES
from service_record.bundle.contents import Content, archive_contents, directory_contents
from service_record.bundle.layers import size_text
from service_record.bundle.writing import SERVER_BYTES, Packed
from service_record.cli import UNREADABLE, LeakRefused, Unreadable
from service_record.cli.diagnosis_input import verdict_page
from service_record.cli.options import EXISTING_FILE, FILE_PATH, SIZE
from service_record.cli.terminal import check_new, make_rules, read_secrets
from service_record.display.text import count
from service_record.read.examples import PREFIX, resolve_example
from service_record.read.source import ForeignError, refuse_unpacked
from service_record.record import systemd
from service_record.record.atomic_write import put_in_place, sync_names
from service_record.record.visible import visible
from service_record.redaction import Leak
from service_record.reporter.bundling import SUFFIX, Bundled, make_bundle, make_copy
from service_record.reporter.gather.collectors import COLLECTORS, RECORDS
from service_record.reporter.gather.gathering import Context, Gathered, GatherRow, GatherStatus

_STANDARD_INPUT: Final = "-"
_MAX_FILES: Final = 50_000
"""The limit of files in a copy. A must-gather of a large cluster has some twenty thousand."""
_LIMITS: Final = Limits(read_bytes=16 << 30, members=_MAX_FILES)
"""A high limit, because the user has chosen this bundle. A large one only takes longer."""
_MIN_BYTES: Final = 1 << 16
_NICENESS: Final = 10
_MAX_WARNINGS: Final = 20
_PACKED: Final = re.compile(r"(?:\.tar)?\.(?:gz|bz2|xz|zst)$|\.(?:tar|tgz)$")


@click.command("bundle")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE_PATH,
    help="File to write. [default: log-bundle-HOST-TIME.tar.gz in this directory]",
)
@click.option(
    "--redact",
    "foreign",
    metavar="FROM",
    help="Copy this bundle, directory or standard input (-) without secrets, instead of "
    "gathering from this host.",
)
@click.option(
    "--secret",
    "secrets",
    metavar="FILE",
    type=EXISTING_FILE,
    multiple=True,
    help="A file with secrets to mask, e.g. a pull secret; repeatable.",
)
@click.option("--no-redact", is_flag=True, help="Leave the secrets in: do not share the result.")
@click.option(
    "--max-size",
    metavar="SIZE",
    type=SIZE,
    help="Maximum size of the archive and of its temporary files. Older log lines are dropped "
    "to fit. [default: 64M, of a copy 250M]",
)
def command(
    *,
    output: Path | None,
    foreign: str | None,
    secrets: tuple[Path, ...],
    no_redact: bool,
    max_size: int | None,
) -> None:
    """Gather what explains a host into one file, without its secrets.

    Nothing is sent. The archive has the verdict of analyze, the service records, journals, and the state of
    network, disks and services, where OpenShift's own log bundles have them. The name of the file goes to
    standard output. The exit code is 3 when there are service records that could not be read.

    \b
    Examples:
      sudo service-record bundle                    this host
      sudo service-record bundle -o /mnt/usb/host.tar.gz
      service-record bundle --redact log-bundle.tar.gz -o for-the-forum.tar.gz
      service-record bundle --redact must-gather/ --secret pull-secret.txt
      service-record bundle --redact example:failed-stage
    """
    if no_redact and (foreign is not None or secrets):
        raise click.UsageError("--no-redact masks nothing; it goes with neither --redact nor --secret")
    if max_size is not None and not _MIN_BYTES <= max_size <= SERVER_BYTES:
        raise click.UsageError(f"--max-size is from {size_text(_MIN_BYTES)} to {size_text(SERVER_BYTES)}")
    at = datetime.now(UTC)
    path = output or Path(_default_name(foreign, at))
    foreign = resolve_example(foreign) if foreign is not None else None
    check_new(path)
    has_records = True
    with _low_priority():
        if foreign is None:
            bundled = _bundle_host(path, at, secrets, redact=not no_redact, most_bytes=max_size or DISK_BYTES)
            has_records = _warn_of_missing(bundled.gathered)
        else:
            _copy(path, at, foreign, secrets, max_size or SERVER_BYTES)
    click.echo(visible(str(path)))
    if not has_records:
        raise click.exceptions.Exit(UNREADABLE)


def _bundle_host(
    path: Path, at: datetime, secrets: Iterable[Path], *, redact: bool, most_bytes: int
) -> Bundled:
    certain = read_secrets(secrets)
    if not redact:
        click.echo("Warning: secrets are not masked (--no-redact); keep the bundle to yourself", err=True)
    with _new(path) as unfinished:
        bundled = make_bundle(
            unfinished.parent,
            _announce(COLLECTORS),
            Context(environ=os.environ, boot_id=systemd.boot_id()),
            verdict=verdict_page(at),
            at=at,
            most_bytes=most_bytes,
            redact=redact,
            secrets=certain,
            name=unfinished.name,
        )
        _check(bundled.leak)
    _warn_of_unread(bundled)
    _print_contents(bundled.bytes, bundled.members, bundled.kinds)
    return bundled


def _warn_of_missing(gathered: Iterable[Gathered]) -> bool:
    """Print warnings about unreadable files; return True if all service records could be read."""
    failed = {
        one.name: one for one in gathered if one.status in {GatherStatus.FAILED, GatherStatus.TIMED_OUT}
    }
    records = failed.pop(RECORDS, None)
    if records is not None:
        which = "some service records" if records.files else "the service records of this host"
        sudo = "" if os.geteuid() == 0 else ". Run with sudo"
        click.echo(f"Warning: {which} are not in the bundle: {visible(records.reason or '')}{sudo}", err=True)
    if os.geteuid() != 0:
        names = [*failed][:_MAX_WARNINGS]
        more = f"; these failed: {', '.join(names)}" if names else ""
        click.echo(f"Warning: not root: journals and files may be incomplete{more}. Run with sudo", err=True)
    return records is None


def _copy(path: Path, at: datetime, foreign: str, secrets: Iterable[Path], most_bytes: int) -> None:
    rules = make_rules(secrets)
    with _new(path) as unfinished:
        contents = _contents(foreign, at, unfinished)
        copied = make_copy(contents, unfinished, rules, mtime=at.timestamp(), most_bytes=most_bytes)
        if not copied.members:
            raise Unreadable(
                f"nothing to read in {visible(foreign)}; give a bundle or a directory with files"
            )
        _check(copied.leak)
    _print_contents(copied.bytes, copied.members, copied.kinds)


@contextmanager
def _new(path: Path) -> Iterator[Path]:
    """Yield a path for a new file, which is put in place when it is whole, or not at all."""
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with put_in_place(unfinished, path):
            yield unfinished
            check_new(path)
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == os.fspath(unfinished):
            error.filename = str(path)  # the name that the user gave
        raise
    sync_names(path.parent)


def _check(leak: Leak | None) -> None:
    from service_record.redaction.leak_scan import UNREADABLE as UNSEARCHABLE  # reads archives

    if leak is not None and leak.kind == UNSEARCHABLE:
        place = visible(leak.place or "the archive")
        raise LeakRefused(f"refused: {place} cannot be searched for secrets; nothing was written")
    if leak is not None:
        raise LeakRefused(f"refused: a secret would have left with {visible(str(leak))}; nothing was written")


def _print_contents(size: int, members: Iterable[Packed], kinds: Counter[str]) -> None:
    """Print the number and size of the files in the bundle, and a warning for each cut one."""
    there = list(members)
    cut = [member for member in there if member.cut]
    for member in cut[:_MAX_WARNINGS]:
        missing = (
            "left out" if member.bytes is None else f"its first {member.dropped_bytes} bytes are missing"
        )
        click.echo(f"Warning: {visible(member.path)}: {missing} ({member.cut})", err=True)
    if len(cut) > _MAX_WARNINGS:
        click.echo(f"Warning: and {len(cut) - _MAX_WARNINGS} more", err=True)
    files = count(sum(member.bytes is not None for member in there), "file")
    click.echo(f"{files}, {size:,} bytes, {count(kinds.total(), 'secret')} masked", err=True)


def _warn_of_unread(bundled: Bundled) -> None:
    if bundled.unread:
        files = count(len(bundled.unread), "file")
        click.echo(
            f"Warning: {files} with secrets could not be read, so that these are masked only where they look "
            f"like some; try as root ({visible(bundled.unread[0])})",
            err=True,
        )


def _announce(collectors: Iterable[GatherRow]) -> Iterator[GatherRow]:
    """Yield the collectors, and print on a terminal when each begins."""
    if not sys.stderr.isatty():
        yield from collectors
        return
    for collector in collectors:
        click.echo(f"\r\x1b[K{collector.name}", nl=False, err=True)
        yield collector
    click.echo("\r\x1b[K", nl=False, err=True)


def _default_name(foreign: str | None, at: datetime) -> str:
    if foreign is None:
        host = re.sub(r"[^A-Za-z0-9.-]", "_", platform.node()) or "host"
        return f"log-bundle-{host}-{at:%Y%m%d%H%M%S}{SUFFIX}"
    name = "bundle" if foreign == "-" else Path(foreign.removeprefix(PREFIX)).resolve().name or "root"
    return f"{_PACKED.sub('', name)}-redacted{SUFFIX}"


@contextmanager
def _low_priority() -> Iterator[None]:
    """Lower the priority, so that the host is not slowed down, and let SIGTERM remove unfinished files."""
    with suppress(OSError):
        os.nice(_NICENESS)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # another one must not interrupt the removal of unfinished files
    raise SystemExit(128 + number)


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
        for number, content in enumerate(directory_contents(source, leave, _LIMITS, without=copy)):
            if number == _MAX_FILES:
                leave(LeftOut("", f"more than {_MAX_FILES} files: the rest was not read"))
                return
            yield Content(f"{top}/{content.path}" if top else content.path, content.written, content.read)
        return
    with source.open("rb") as stream:
        head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
        try:
            if not is_packed(head):
                refuse_unpacked(place, head)
        except ForeignError as error:
            raise Unreadable(visible(str(error))) from None
        yield from archive_contents(stream, source.name, source.stat().st_mtime, leave, _LIMITS)
