"""Send the last output lines of an open stage to a collector, for `ship --follow` and `run`.

The lines are sent every few seconds. If a host dies in the middle of a stage, the collector still has them. A
service never waits for the network: `run` sends from another process, and `ship` from a thread.
"""

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import click

from service_record.cli.command_output import leave_everything_but
from service_record.record import systemd
from service_record.record.visible import visible

if TYPE_CHECKING:
    from service_record.http.last_words_sending import LastWordsSender
    from service_record.record.directory import Records
    from service_record.record.entry import Entry

_EVERY_SECONDS: Final = 5.0
_REQUEST_SECONDS: Final = 5.0
_END_SECONDS: Final = 10
"""The sending process is killed this long after the end of the command."""
_JOURNAL_LINES: Final = 100
"""Number of lines that are searched for secrets; fewer are sent.

A private key is recognized only by its first or last line, and may be longer than the lines that are sent.
"""
_TAIL_BYTES: Final = 256 << 10
"""The open stage is searched only in this many bytes at the end of a record."""


@dataclass(frozen=True, slots=True)
class CollectorPlace:
    """The collector's URL and the files with its token and CA certificates, from the options."""

    url: str
    token_file: Path | None = None
    ca_bundle: Path | None = None

    def sender(self, warn: Callable[[str], None], host: str = "") -> "LastWordsSender":
        """Connect to the collector; `warn` prints a warning. `host` is the name under which lines are sent.

        Raises CollectorError, and ImportError without the extra `client`.
        """
        from service_record.http.address import parse_address
        from service_record.http.collector_client import connect
        from service_record.http.last_words_sending import LastWordsSender
        from service_record.redaction import HostMask, LeakError

        host_mask = HostMask(Path("/"), os.environ)

        def mask(text: str) -> str:
            try:
                return host_mask.text(text)
            except LeakError:
                return "(not sent: a secret in these lines could not be masked)"

        client = connect(
            self.url, token_file=self.token_file, ca_bundle=self.ca_bundle, seconds=_REQUEST_SECONDS
        )
        name = host or parse_address(self.url).host or socket.gethostname()
        return LastWordsSender(client, name.lower(), mask, warn)


# For `run`


def start_sending(
    place: CollectorPlace, service: str, stage: str, lines: Callable[[], list[str]], kept: Iterable[int]
) -> int:
    """Start a process that sends the last lines of a command. Return a descriptor, or -1 if none started.

    `lines` returns these lines; it needs the descriptors in `kept`. When the command has ended, the caller
    must close the returned descriptor. If the command succeeded, it first writes one byte to it.
    """
    try:
        ended, control = os.pipe()
    except OSError:
        return -1
    try:
        child = os.fork()
    except OSError:
        os.close(ended)
        os.close(control)
        return -1
    if child == 0:
        try:
            leave_everything_but({ended, 2, *kept})
            _redirect_to_null({0, 1}.difference(kept))
            _send_until_end(place, service, stage, lines, ended)
        finally:
            os._exit(0)
    os.close(ended)
    return control


def _redirect_to_null(descriptors: set[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors - {null}:
        os.dup2(null, descriptor)


def _send_until_end(
    place: CollectorPlace, service: str, stage: str, lines: Callable[[], list[str]], ended: int
) -> None:
    # This process inherits a mask that blocks all signals. SIGTERM is needed because systemd must not have to
    # wait for this process when it stops the unit. SIGALRM limits the time after the end of the command.
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGALRM})
    has_ended = False

    def warn(line: str) -> None:
        if not has_ended:
            with suppress(OSError):
                os.write(2, f"service-record run: {visible(line)}\n".encode(errors="replace"))

    sender: LastWordsSender | None = None
    while not has_ended:
        has_ended = bool(select.select([ended], [], [], _EVERY_SECONDS)[0])
        if has_ended:
            signal.alarm(_END_SECONDS)
        is_success = has_ended and bool(os.read(ended, 1))
        printed = [] if is_success else lines()
        if has_ended:
            _redirect_to_null({2})  # a reader of standard error must not wait for this process
        if not printed and not has_ended:
            continue
        try:
            sender = sender or place.sender(warn)
            sender.send(service, stage, printed, is_last=has_ended)
            if sender.is_refused:
                return
        except Exception as error:  # noqa: BLE001  # no error here may affect the service
            warn(f"Warning: last lines are not sent: {error}")
            return


def invocation_lines(invocation: str, since: float) -> Callable[[], list[str]]:
    """Return a function that returns the last journal lines of an invocation since a time."""
    from service_record.cli.command_output import readable_line

    def lines() -> list[str]:
        printed = systemd.journal_lines(invocation, since, _JOURNAL_LINES)
        return [readable_line(line.encode(errors="replace")) for line in printed if line.strip()]

    return lines


# For `ship --follow`


@dataclass(frozen=True, slots=True)
class OpenStage:
    """The open stage of a running service. `stage` is empty if the service has no open stage."""

    invocation: str
    stage: str
    since: float
    """Seconds since 1970."""


@dataclass(slots=True)
class RecordsFollower:
    """A thread that sends the last journal lines of the services whose records are in a directory.

    It runs in a `with` block. The end of the block waits for it, at most as long as one journalctl and one
    request take: OpenSSL crashes if another thread still uses it while the process ends.
    """

    place: CollectorPlace
    host: str
    records: "Records"
    services: frozenset[str]
    _open: dict[str, OpenStage] = field(default_factory=dict)
    _seen: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="last words")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        def warn(line: str) -> None:
            click.echo(visible(line), err=True)

        try:
            sender = self.place.sender(warn, self.host)
            while not sender.is_refused and not self._ended.wait(_EVERY_SECONDS):
                self._send_round(sender)
        except Exception as error:  # noqa: BLE001  # no error here may stop the sending of records
            warn(f"Warning: last lines are not sent: {error}")

    def _send_round(self, sender: "LastWordsSender") -> None:
        try:
            services = self.records.services()
        except FileNotFoundError:
            return
        for service in services:
            if self._ended.is_set():
                return
            if self.services and service not in self.services:
                continue
            with suppress(OSError):  # the record has just been removed, or cannot be read
                self._send_lines(service, sender)

    def _send_lines(self, service: str, sender: "LastWordsSender") -> None:
        from service_record.http.record_sending import read_signature
        from service_record.record.entry import Result

        path, before = self.records.directory / f"{service}.json", self._open.get(service)
        signature = read_signature(path)
        if self._seen.get(service) != signature:
            self._seen[service] = signature
            entries = read_last_entries(path)
            opened = find_open_stage(entries)
            if opened is None:
                self._open.pop(service, None)
                if before is not None and sender.was_sent(service):
                    is_success = bool(entries) and entries[-1].result is Result.SUCCESS
                    lines = [] if is_success else invocation_lines(before.invocation, before.since)()
                    sender.send(service, before.stage, lines, is_last=True)
                    sender.forget(service)
                return
            self._open[service] = opened
        if (opened := self._open.get(service)) is not None and (
            lines := invocation_lines(opened.invocation, opened.since)()
        ):
            sender.send(service, opened.stage, lines)


def read_last_entries(path: Path) -> "list[Entry]":
    """Return the last entries of a record. Raises OSError."""
    from io import BytesIO

    from service_record.http.record_sending import Stream
    from service_record.record.entry import Entry
    from service_record.record.layout import read_entries

    with closing(Stream(path)) as stream:
        tail = stream.tail(_TAIL_BYTES)
    return [piece for piece in read_entries(BytesIO(tail)) if isinstance(piece, Entry)]


def find_open_stage(entries: "Iterable[Entry]") -> OpenStage | None:
    """Return the open stage, or the open service or command if it has no open stage; None if neither is open.

    Only services that systemd has started in this boot count, because the output of others is not in the
    journal.
    """
    from service_record.record.entry import Phase

    open_parts: list[tuple[str, float]] = []
    invocation = boot = None
    for entry in entries:
        if entry.invocation_id != invocation:
            open_parts, invocation = [], entry.invocation_id
        boot = entry.boot_id
        began = entry.time.timestamp() if entry.time is not None else 0.0
        if entry.phase is Phase.STAGE_START:
            open_parts = open_parts or [("", began)]  # the start of the run is before the read part
            open_parts.append((entry.stage or "", began))
        elif entry.phase is Phase.STAGE_END:
            same_name = [number for number, (stage, _) in enumerate(open_parts) if stage == entry.stage]
            del open_parts[same_name[-1] if same_name else len(open_parts) :]
        elif entry.phase.is_start:
            open_parts = [("", began)]
        else:
            open_parts = []
    if not open_parts or invocation is None or boot != systemd.boot_id():
        return None
    stage, since = open_parts[-1]
    return OpenStage(invocation, stage, since)
