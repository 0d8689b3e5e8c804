"""Yield the files of a host that are not records: from a bundle, a directory, a file or the running host."""

import os
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service_record.diagnosis.judgement import HostFiles
from service_record.diagnosis.units import Unit
from service_record.read.source import Source
from service_record.record.programs import Deadline, ProgramError, program_path, reading
from service_record.record.recognition import HEAD_BYTES, FileForm, recognise

if TYPE_CHECKING:
    from service_record.bundle import LeftOut
    from service_record.bundle.contents import Content, Leave

_CHUNK_BYTES: Final = 1 << 20
_LINK: Final = "a symbolic link"
_JOURNAL_SECONDS: Final = 600.0  # for one boot of binary journals, including the search of its lines
_MAX_JOURNAL_BYTES: Final = 4 << 30


def host_files(
    source: Source,
    units: Iterable[Unit] | None = (),
    *,
    named: Iterable[str] = (),
    is_here: bool = False,
    is_brief: bool = False,
    leave: "Leave | None" = None,
    every_boot: bool = False,
) -> HostFiles | None:
    """Return the files of a source, each with a function that reads it; None if there are none.

    If the source has no files and `is_here` is True, the records are from this host, and the host itself is
    read for at most three seconds. That includes the latest journal lines of the failed `units` and of the
    `named` services; with `is_brief`, fewer of the other lines are read. The programs that read the host are
    started before this returns.

    `leave` is called with each file that was not read, unless opening the source has already reported it. The
    latest two boots of binary journals are read, or all with `every_boot`.
    """
    if source.contents is not None:
        return _read_contents(source, leave or _ignore, every_boot=every_boot)
    if not is_here:
        return None
    failed = [unit.name for unit in units or () if unit.is_failed]
    return _live([*failed, *(f"{service}.service" for service in named)], is_brief=is_brief)


def _live(units: list[str], *, is_brief: bool) -> HostFiles:
    # Imported here because other sources do not need it.
    from service_record.read.live_host import BRIEF_JOURNAL_LINES, JOURNAL_LINES, live_contents

    contents = live_contents(units, journal_lines=BRIEF_JOURNAL_LINES if is_brief else JOURNAL_LINES)
    return ((name, BytesIO(data).read) for name, data in contents)


def _ignore(_: object) -> None:
    pass


def _read_contents(source: Source, leave: "Leave", *, every_boot: bool) -> HostFiles:
    """Yield each file. Binary journals come last, in the export format of journalctl."""
    reported = {str(part) for part in source.left_out}

    def report(part: "LeftOut") -> None:
        part = part.within(source.name)
        # The targets of links are usually in the bundle too. Reports of all links would hide other reports.
        if part.reason != _LINK and str(part) not in reported:
            leave(part)

    if source.contents is None:
        return
    with tempfile.TemporaryDirectory(prefix="service-record-") as directory:
        journals: list[Content] = []
        for content in source.contents(report):
            head = content.read(HEAD_BYTES)
            if recognise(head) is not FileForm.JOURNAL_BINARY:
                yield content.path, _from_beginning(head, content.read)
            elif program_path("journalctl", os.environ) is None:
                report(_not_installed(content.path))
            else:
                _copy(Path(directory, f"{len(journals)}.journal"), head, content.read)
                journals.append(content)
        if journals:
            boots = _EVERY_BOOT if every_boot else _LATEST_BOOTS
            yield from _printed_journals(Path(directory), journals[0].path, boots, report)


def _from_beginning(head: bytes, read: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return a function that reads a file from its beginning although its head was already read."""
    rest = head

    def read_again(size: int) -> bytes:
        nonlocal rest
        if rest:
            piece, rest = rest[:size], rest[size:]
            return piece
        return read(size)

    return read_again


def _copy(path: Path, head: bytes, read: Callable[[int], bytes]) -> None:
    with path.open("wb") as copy:
        copy.write(head)
        while chunk := read(_CHUNK_BYTES):
            copy.write(chunk)


def _not_installed(path: str) -> "LeftOut":
    from service_record.bundle import LeftOut  # imported here because few sources need it

    return LeftOut(
        path,
        "a binary journal, not read: journalctl is not installed here; where it is, "
        "run journalctl --file=FILE -o export >FILE.export, and give that file",
    )


_LATEST_BOOTS: Final = (("--boot=-1", "boot-1.log"), ("--boot=0", "journal.export"))
_EVERY_BOOT: Final = (("--boot=all", "journal.export"),)


def _printed_journals(
    directory: Path, path: str, boots: Iterable[tuple[str, str]], report: "Leave"
) -> HostFiles:
    """Export these boots from a directory of binary journals, and yield one file for each boot."""
    from service_record.bundle import LeftOut  # as above

    folder = path.rpartition("/")[0]
    for boot, name in boots:
        command = ("journalctl", "--quiet", f"--directory={directory}", boot, "--output=export")
        failure = ""

        def read(size: int, read_output: Callable[[int], bytes]) -> bytes:
            nonlocal failure
            try:
                return read_output(size)
            except ProgramError as error:
                failure = str(error)
                return b""

        with reading(command, os.environ, Deadline(_JOURNAL_SECONDS), _MAX_JOURNAL_BYTES) as (child, output):
            yield f"{folder}/{name}".lstrip("/"), partial(read, read_output=output)
        if not failure and child.status and name == "journal.export":
            failure = f"exit {child.status}"
        if failure:
            report(LeftOut(path, f"a binary journal that journalctl cannot read: {failure}"))
