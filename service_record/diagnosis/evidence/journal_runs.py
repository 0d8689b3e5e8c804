"""Read the runs of units from a journal in any format; see `history.from_journal`. Pure.

A journal may have millions of lines. Only systemd's messages, the lines of installers and the last lines of
failed units are parsed.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from itertools import chain
from typing import Final

import msgspec

from service_record.diagnosis.evidence.journal_forms import (
    LOST_COLOURS,
    WITH_FIELDS,
    Fields,
    Read,
    convert_to_lines,
    prepend,
    read_fields,
)
from service_record.diagnosis.evidence.log_lines import (
    Era,
    program_names,
)
from service_record.diagnosis.evidence.text_times import TextTimes
from service_record.diagnosis.evidence.unit_logs import find_start
from service_record.history.from_installers import JOURNAL_PROGRAMS, InstallerLine
from service_record.history.from_journal import JournalMessage, JournalMoment, JournalRuns
from service_record.history.unit_events import UNIT
from service_record.record.recognition import TIMES, FileForm

_BLOCK_BYTES: Final = 1 << 20
_MAX_LOOKBACK_BYTES: Final = 64 << 10
"""In a journal as text, only this many bytes before a failure are searched for lines of the failed unit."""
_MAX_TAIL: Final = 3  # lines of the unit in the message of its failure
_MAX_LINE_BYTES: Final = 1 << 12
SYSTEMD_LINE: Final = rf"(?P<time>{TIMES}) (?:\S+ )?(?:systemd(?:\[1\])?|init\.scope\[1\]): (?P<text>.*)"
_NEEDLES: Final = (
    *(b" systemd[1]: ", b" systemd: ", b" init.scope[1]: "),
    *(b"\n-- Boot ", b"\n-- Reboot --", b" kernel: Linux version ", b" setting system clock to "),
    *(b" subiquity_", b" curtin_", b" cloud-init[", b" anaconda["),
)
"""Only lines of a text journal that contain one of these are parsed."""
_INSTALLER_LINE: Final = (
    rf"(?P<time>{TIMES}) (?:\S+ )?(?P<program>{JOURNAL_PROGRAMS})\[\d{{1,10}}\]: (?P<text>.*)"
)
_MAX_INSTALLER_LINES: Final = 200_000
_MAX_ENTRY_BYTES: Final = 16 << 20
_SHORTENED_ENTRY_BYTES: Final = 1 << 20  # kept of a longer entry, such as a core dump
_EVENT_FIELDS: Final = (*(b"MESSAGE_ID", b"JOB_RESULT", b"UNIT_RESULT", b"EXIT_CODE", b"EXIT_STATUS"),)
_MAX_DIGITS: Final = 16
_MAX_DELAY: Final = 60.0  # seconds; after a longer delay, the clock must have been set in between
_CLOCK: Final = rb" setting system clock to ((?:19|20)\d\d-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)"
"""The kernel's message about the hardware clock. It has the year, which the times of other lines lack."""
_FAILURES: Final = (": Failed with result ", " entered failed state.")


def read_runs(
    form: FileForm, read: Read, era: Era, *, is_year_known: bool = True, only_unit: str = ""
) -> JournalRuns:
    """Read a journal. `era` determines the year if the times of its format have no year.

    If `is_year_known` is False, the era is a guess. Then `years_assumed` of the result is True if a year was
    needed. If the journal has the lines of only one unit, pass its name: its programs may have any name.
    """
    if form is FileForm.JOURNAL_EXPORT:
        return _read_entries(form, _split_export(read), _EXPORT_MARKS)
    if form is FileForm.JOURNAL_JSON:
        head = read(_BLOCK_BYTES)
        read = prepend(head, read)
        first = head.partition(b"\n")[0]
        if b'"__REALTIME_TIMESTAMP":"' in first and first.rstrip(b", \r").endswith(
            b"}"
        ):  # not reformatted by jq
            return _read_entries(form, _split_lines(read), _JSON_MARKS)
    if form in WITH_FIELDS:
        runs = JournalRuns()
        for fields in read_fields(form, read):
            _add_fields(runs, fields)
        return runs
    return _read_text(convert_to_lines(form, read), era, is_year_known=is_year_known, only_unit=only_unit)


class _Marks(msgspec.Struct, frozen=True):
    """Byte strings with which a field is found in an entry without parsing the entry."""

    of_systemd: tuple[bytes, ...]
    unit: bytes
    invocation: bytes
    boot: bytes
    end: bytes
    installers: tuple[bytes, ...]
    """Beginnings of installers' identifiers. The ends differ: `curtin_event.1975.5`."""


def _make_identifier_marks(field: bytes) -> tuple[bytes, ...]:
    return tuple(field + name for name in (b"subiquity_", b"curtin_", b"cloud-init", b"anaconda"))


_EXPORT_MARKS: Final = _Marks(
    (b"\n_PID=1\n", b"\nUNIT="),
    b"\n_SYSTEMD_UNIT=",
    b"\n_SYSTEMD_INVOCATION_ID=",
    b"\n_BOOT_ID=",
    b"\n",
    _make_identifier_marks(b"\nSYSLOG_IDENTIFIER="),
)
_JSON_MARKS: Final = _Marks(
    (b'"_PID":"1"', b'"UNIT":"'),
    b'"_SYSTEMD_UNIT":"',
    b'"_SYSTEMD_INVOCATION_ID":"',
    b'"_BOOT_ID":"',
    b'"',
    _make_identifier_marks(b'"SYSLOG_IDENTIFIER":"'),
)


def _read_entries(form: FileForm, entries: Iterable[bytes], marks: _Marks) -> JournalRuns:
    """Parse the entries of systemd and installers, and the last entries of a unit before its failure.

    Parsing all entries takes three times as long: only about one entry in a hundred is from systemd.
    """
    runs = JournalRuns(lambda entry: _read_message(form, entry))
    first, second = marks.of_systemd
    for entry in entries:
        if first in entry or second in entry or any(mark in entry for mark in marks.installers):
            for fields in read_fields(form, BytesIO(entry).read):
                _add_fields(runs, fields)
        elif unit := _find_value(entry, marks.unit, marks.end):
            invocation = _find_value(entry, marks.invocation, marks.end)
            runs.add_line(unit, invocation or None, entry, _find_value(entry, marks.boot, marks.end) or None)
    return runs


def _find_value(entry: bytes, mark: bytes, end: bytes) -> str:
    at = entry.find(mark)
    if at < 0:
        return ""
    at += len(mark)
    stop = entry.find(end, at)
    return entry[at : stop if stop >= 0 else len(entry)].decode(errors="replace")


def _read_message(form: FileForm, entry: bytes | str) -> str:
    """Return the message of an entry. If the entry is a text, it is the message itself."""
    if isinstance(entry, str):
        return entry
    fields = next(read_fields(form, BytesIO(entry).read), {})
    return fields.get(b"MESSAGE", b"")[:_MAX_LINE_BYTES].decode(errors="replace")


def _split_export(read: Read) -> Iterator[bytes]:
    """Yield the entries of a journal in the export format, each as one piece.

    An empty line ends an entry, but a field's text may also contain empty lines. So an entry ends only if the
    line after the empty line begins with `__`, like `__CURSOR`.
    """
    pending = b""
    while chunk := read(_BLOCK_BYTES):
        parts = (pending + chunk).split(b"\n\n")
        pending = parts[0]
        for part in parts[1:]:
            if part.startswith(b"__") or len(pending) > _MAX_ENTRY_BYTES:
                yield pending + b"\n"
                pending = part
            else:
                pending += b"\n\n" + part
        if len(pending) > _MAX_ENTRY_BYTES:
            # Bound the memory, and the time to split the entry again with each block. The last three bytes
            # may be the beginning of its end.
            pending = pending[:_SHORTENED_ENTRY_BYTES] + pending[-3:]
    if pending:
        yield pending + b"\n"


def _split_lines(read: Read) -> Iterator[bytes]:
    pending = b""
    while chunk := read(_BLOCK_BYTES):
        lines = (pending + chunk).split(b"\n")
        pending = lines.pop()[-_MAX_ENTRY_BYTES:]
        yield from lines
    if pending:
        yield pending


def _add_fields(runs: JournalRuns, fields: Fields) -> None:
    text = fields.get(b"MESSAGE")
    if not text:
        return
    boot_id = fields.get(b"_BOOT_ID", b"").decode(errors="replace") or None
    if fields.get(b"_PID") != b"1" and fields.get(b"SYSLOG_IDENTIFIER") != b"systemd":
        program = fields.get(b"SYSLOG_IDENTIFIER", b"").decode(errors="replace")
        if re.fullmatch(JOURNAL_PROGRAMS, program) is not None:
            time = _find_sent_time(fields).time
            at = None if time is None else datetime.fromtimestamp(time, UTC)
            _add_installer_lines(runs, text, program, at)
        own = fields.get(b"_SYSTEMD_UNIT", b"").decode(errors="replace")
        invocation = fields.get(b"_SYSTEMD_INVOCATION_ID", b"").decode(errors="replace")
        if own:
            runs.add_line(own, invocation or None, text[:_MAX_LINE_BYTES].decode(errors="replace"), boot_id)
        return
    unit = fields.get(b"UNIT", b"")
    if not unit and (fields.get(b"_PID") != b"1" or b"USER_UNIT" in fields):
        return  # a message of a user's service manager
    runs.add(
        JournalMessage(
            at=_find_sent_time(fields),
            boot_id=boot_id,
            text=text[:_MAX_LINE_BYTES].decode(errors="replace").strip(),
            unit=unit.decode(errors="replace"),
            invocation_id=fields.get(b"INVOCATION_ID", b"").decode(errors="replace") or None,
            fields={
                name.decode(): fields[name].decode(errors="replace")
                for name in _EVENT_FIELDS
                if fields.get(name)
            },
        )
    )


def _add_installer_lines(runs: JournalRuns, text: bytes, program: str, at: datetime | None) -> None:
    for line in text.split(b"\n"):
        if len(runs.installer_lines) < _MAX_INSTALLER_LINES:
            own = line[:_MAX_LINE_BYTES].decode(errors="replace")
            runs.installer_lines.append(InstallerLine(own, at, program))


def _find_sent_time(fields: Fields) -> JournalMoment:
    """Return the time at which a message was sent. A busy journald may receive it seconds later."""
    time, uptime = (
        _parse_microseconds(fields.get(name)) for name in (b"__REALTIME_TIMESTAMP", b"__MONOTONIC_TIMESTAMP")
    )
    sent = _parse_microseconds(fields.get(b"_SOURCE_REALTIME_TIMESTAMP"))
    if time is not None and sent is not None and 0 <= time - sent <= _MAX_DELAY:
        uptime = None if uptime is None else uptime - (time - sent)
        time = sent
    return JournalMoment(time, uptime)


def _parse_microseconds(microseconds: bytes | None) -> float | None:
    if not microseconds or not microseconds.isdigit() or len(microseconds) > _MAX_DIGITS:
        return None
    return int(microseconds) / 1e6


def _read_text(read: Read, era: Era, *, is_year_known: bool, only_unit: str) -> JournalRuns:
    """Read a journal as text. Lines do not name their unit, and only journalctl prints the boot."""
    runs = JournalRuns()
    times = TextTimes(era)
    window, place = b"\n", 1
    boot_id: str | None = None
    is_named = has_messages = False
    boots = 0
    blocks = chain(iter(lambda: read(_BLOCK_BYTES), b""), [b"\n"])  # the last line may lack its end
    for chunk in blocks:
        window = window[max(place - _MAX_LOOKBACK_BYTES, 0) :] + chunk
        place = min(place, _MAX_LOOKBACK_BYTES)
        end = window.rfind(b"\n") + 1
        for start in _find_line_starts(window, place, end):
            line = window[start : min(window.find(b"\n", start), start + _MAX_LINE_BYTES)]
            if b" kernel: " in line and (clock := re.search(_CLOCK, line)) is not None:
                times.add_clock(line.decode(errors="replace"), f"{clock[1].decode()}T{clock[2].decode()}")
                continue
            boot = re.match(rb"-- (?:Boot ([0-9a-f]{32})|Reboot)", line)
            if boot is not None or b" kernel: Linux version " in line:
                # journalctl prints a line before each boot; the kernel's first line is always the same.
                if boot is not None and boot[1]:
                    boot_id, is_named = boot[1].decode(), True
                elif has_messages and not is_named:
                    boots += 1
                    boot_id = f"later-{boots}"
                has_messages = False
                continue
            match = re.match(SYSTEMD_LINE, line.decode(errors="replace"))
            if match is None:
                own = re.match(_INSTALLER_LINE, line.decode(errors="replace"))
                if own is not None:
                    _add_installer_lines(runs, own["text"].encode(), own["program"], times.parse(own["time"]))
                continue
            has_messages = True
            text = match["text"].strip()
            if (failed := next((text.find(each) for each in _FAILURES if each in text), None)) is not None:
                unit = text[:failed].removeprefix("Unit ")
                before = window[max(start - _MAX_LOOKBACK_BYTES, 0) : start]
                runs.set_lines(unit, _find_last_lines(before, unit, is_alone=unit == only_unit), boot_id)
            time = times.parse(match["time"])
            moment = JournalMoment(
                time.timestamp() if time is not None else None, _parse_uptime(match["time"])
            )
            runs.add(JournalMessage(at=moment, boot_id=boot_id, text=text))
        place = max(end, place)
    runs.move_years(times.years_to_add)
    runs.years_assumed = not is_year_known and times.is_assumed
    return runs


_STATUS: Final = r"\[ {0,2}(?:OK|FAILED|DEPEND|TIME) {0,2}\] (?P<text>[^\[]*)"
_KERNEL_TIME: Final = r"\[ *(?P<uptime>\d{1,9}\.\d{6})\] ?"
_BEGINS: Final = r" {9}(?P<text>(?:Starting|Stopping|Mounting|Unmounting|Activating) .*?(?:\.\.\.|…))"
_PLYMOUTH: Final = r"-{6,} \w{3} \w{3} \d\d .* \d{4} -{6,}$"
"""The header that plymouth writes before each boot in /var/log/boot.log."""
_WELCOME: Final = r"Welcome to (?!.*(?i:dracut|initramfs|initrd)).+!"
"""The greeting of systemd in the real root, printed once in each boot."""
_PANIC: Final = r"Kernel panic - not syncing: .*"
_EMERGENCY: Final = (
    r"(?:You are in (?:emergency|rescue) mode|Entering emergency mode|Cannot open access to console, the root"
    r"|Give root password for maintenance|Press Enter for maintenance).*"
)
CONSOLE: Final = rb"\[  OK  \]|\[FAILED\]|\[DEPEND\]|Linux version \d|Kernel panic - not syncing"
"""Pattern that recognizes a console capture after its control sequences were removed."""


def read_console(form: FileForm, read: Read) -> JournalRuns:
    """Read the capture of a console or serial line, which has systemd's status lines about starts and stops.

    Only lines of the kernel log have a time. A kernel panic becomes a failure of the service `kernel`, and
    the emergency mode becomes a failure of `boot`.
    """
    runs = JournalRuns()
    runs.is_kernel_log = True  # until a status line shows that this is a console
    boot_id: str | None = None
    boots, has_messages, is_welcomed = 0, False, False
    for raw in _split_lines(convert_to_lines(form, read)):
        text = re.sub(LOST_COLOURS, "", raw[:_MAX_LINE_BYTES].decode(errors="replace"))
        for line in text.split("\r"):
            stamp = re.match(_KERNEL_TIME, line)
            moment = JournalMoment(None, None if stamp is None else float(stamp["uptime"]))
            is_welcome = re.match(_WELCOME, line) is not None
            is_first = "] Linux version " in line
            if re.match(_PLYMOUTH, line) is not None or (is_welcome and is_welcomed):
                is_first = runs.is_boot_log = True
            is_welcomed = is_welcome or (is_welcomed and not is_first)
            if is_first and has_messages:
                boots, has_messages = boots + 1, False
                boot_id = f"later-{boots}"
            if (panic := re.search(_PANIC, line)) is not None:
                runs.add_failure("kernel", panic[0].strip(), moment, boot_id)
            elif (emergency := re.search(_EMERGENCY, line)) is not None:
                runs.add_failure("boot", emergency[0].strip(), moment, boot_id)
            else:
                message = _parse_console_line(line)
                runs.is_kernel_log &= stamp is not None or not message
                has_messages |= bool(message)
                if message:
                    runs.add(JournalMessage(at=moment, boot_id=boot_id, text=message))
    return runs


def _parse_console_line(line: str) -> str:
    """Return systemd's message in a line of a console; empty if there is none.

    The line may also contain a message of the kernel.
    """
    _, mark, own = line.partition(" systemd[1]: ")
    if mark:
        return own.strip()
    match = re.search(_STATUS, line) or re.match(_BEGINS, line)
    if match is None:
        return ""
    # systemd shortens names that do not fit the screen: `long-name…ervice - The service.`
    text = re.sub(rf"(?<= )({UNIT})…\s*(?:- )?", r"\1 - ", match["text"].strip())
    return re.sub(r" \S+…\S*\s?- (?=\S)", " ", text)


def _find_line_starts(window: bytes, begin: int, end: int) -> list[int]:
    """Return the offsets, in order, of the lines from systemd or an installer, or at the start of a boot."""
    starts = []
    for needle in _NEEDLES:
        at = window.find(needle, begin - 1, end)
        while at >= 0:
            starts.append(window.rfind(b"\n", 0, at + 1) + 1)
            at = window.find(needle, at + len(needle), end)
    return sorted(set(starts))


def _parse_uptime(stamp: str) -> float | None:
    """Parse a time of `journalctl -o short-monotonic`: the seconds since the boot."""
    match = re.match(r"\[ *(\d{1,9}\.\d{6})", stamp)
    return None if match is None else float(match[1])


def _find_last_lines(before: bytes, unit: str, *, is_alone: bool) -> list[str]:
    """Return the last lines of a unit since its latest start.

    The text does not name the unit of a line, so programs are assigned to the unit by their names, unless the
    unit is alone in the journal (`is_alone`).
    """
    names = b"|".join(
        re.escape(name).encode() for name in sorted(program_names(unit.removesuffix(".service")))
    )
    program = (
        rb"(?!systemd\[)[^\s:\[\]()]{1,64}" if is_alone else rb"(?:" + names + rb")(?:\.sh|\.py|\.service)?"
    )
    own = rb" " + program + rb"\[\d{1,10}\]: ([^\n]*)"
    # systemd's child logs under another name until it executes the service's program.
    own += rb"| (?:\([^\s()]{1,32}\)|systemd)\[\d{2,10}\]: " + re.escape(unit).encode() + rb": ([^\n]*)"
    begin = find_start(unit.encode(), before) or 0
    last = deque(re.finditer(own, before[begin:]), maxlen=_MAX_TAIL)
    return [(match[1] or match[2] or b"").decode(errors="replace") for match in last]
