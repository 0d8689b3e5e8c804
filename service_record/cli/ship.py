"""`service-record ship`: send records to a collector, or traces to a backend, as they are written."""

import os
import random
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click

from service_record.cli import LeakRefused, NotDelivered, Unreadable, require_extra
from service_record.cli.options import (
    EXISTING_FILE,
    FILE_PATH,
    read_directory_option,
    service_argument,
)
from service_record.cli.terminal import make_rules
from service_record.display.text import count
from service_record.export.trace_endpoint import is_otlp, read_headers, traces_url
from service_record.http.address import (
    CA_VARIABLE,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    CollectorError,
    NotTaken,
    parse_address,
)
from service_record.read.live_directory import Watch
from service_record.record import systemd
from service_record.record.directory import Records
from service_record.record.visible import visible
from service_record.redaction import HostMask, LeakError, outgoing_template

if TYPE_CHECKING:
    from service_record.cli.last_lines import RecordsFollower
    from service_record.export.trace_backend import TraceBackend
    from service_record.http.collector_client import CollectorClient

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_TOGETHER_SECONDS: Final = 0.2  # new entries wait for more, which the same request carries
_ONCE_SECONDS: Final = 60.0  # without --follow, refused traces are sent again for this time


@dataclass(frozen=True, slots=True)
class _Shipment:
    """Functions that send the new entries in a directory of records."""

    send: Callable[[bool], None]
    """Its argument is True for the last call."""
    describe: Callable[[], str]
    """Returns a text about the amount that was sent."""
    remarks: list[str] = field(default_factory=list)
    """Remarks of the server on accepted data. The caller prints them and empties the list."""
    retry_seconds: float = 0.0
    """The time in which a single delivery is tried again."""


@click.command("ship")
@service_argument
@click.option(
    "--to",
    "url",
    metavar="URL",
    envvar=URL_VARIABLE,
    help="The collector: https://HOST, or collector://HOST[:PORT][/NAME]; or a backend of OpenTelemetry, for "
    f"traces: otlp+https://HOST[:PORT][/PATH]. [${URL_VARIABLE}]",
)
@click.option("--host", metavar="NAME", help="Name of this host at the server. [default: its hostname]")
@click.option(
    "--template",
    "templates",
    type=EXISTING_FILE,
    multiple=True,
    help="Send this rendered template instead of records: a kickstart, a preseed. Repeatable.",
)
@click.option("--follow", is_flag=True, help="Keep sending new entries until SIGTERM.")
@read_directory_option
@click.option(
    "--token-file",
    type=FILE_PATH,
    envvar=TOKEN_VARIABLE,
    metavar="FILE",
    help="File that contains only the token.",
)
@click.option(
    "--headers-file",
    type=FILE_PATH,
    metavar="FILE",
    help="For otlp+https://: headers, one a line, as in 'Authorization: Bearer TOKEN'.",
)
@click.option(
    "--ca-bundle", type=FILE_PATH, envvar=CA_VARIABLE, metavar="FILE", help="More PEM certificates to trust."
)
def command(
    *,
    services: tuple[str, ...],
    url: str | None,
    host: str | None,
    templates: tuple[Path, ...],
    follow: bool,
    directory: Path | None,
    token_file: Path | None,
    headers_file: Path | None,
    ca_bundle: Path | None,
) -> None:
    """Send records to a collector, or traces to a backend, as they come.

    The URL is given with --to, or as the first argument.

    Secrets of this host are masked. Entries that the collector already has are not sent again. If delivery
    fails, the exit code is 75; with --follow it is tried again until it works.

    To otlp+https://, a backend of OpenTelemetry, a boot is sent as a trace: each run, command and stage is a
    span, sent once it has ended.

    \b
    Examples:
      service-record ship --to https://c.example --follow
      service-record ship --to https://c.example --host try --from example:oom
      service-record ship --to collector://c.example/web1 bootkube
      service-record ship --to https://c.example --template /root/anaconda-ks.cfg
      service-record ship --to otlp+https://tempo.example:4318 --follow
    """
    if services and "://" in services[0]:
        if _is_given("url"):
            raise click.UsageError("the URL is given twice; leave out --to")
        url, services = services[0], services[1:]
    if url is None:
        raise click.UsageError(f"no collector is named; use --to URL, or set ${URL_VARIABLE}")
    if templates and (follow or services or directory):
        raise click.UsageError("--template sends no records: leave out --follow, --from and services")
    records = Records(directory)
    if is_otlp(url):
        if templates or _is_given("token_file"):
            raise click.UsageError("--template and --token-file are for collectors; see --headers-file")
        with _backend(url, headers_file, ca_bundle) as backend:
            _ship_traces(backend, host, records, frozenset(services), follow=follow)
        return
    if headers_file is not None:
        raise click.UsageError("--headers-file is for otlp+https://; a collector takes --token-file")
    require_extra("client")
    from service_record.cli.last_lines import CollectorPlace, RecordsFollower
    from service_record.http.collector_client import connect  # an extra
    from service_record.http.record_sending import Sender  # an extra

    try:
        name = host or parse_address(url).host or socket.gethostname()
        client = connect(url, token_file=token_file, ca_bundle=ca_bundle)
    except CollectorError as error:
        raise Unreadable(visible(str(error))) from None
    with client:
        if templates:
            _send_templates(client, name.lower(), templates)
            return
        sender = Sender(client, name.lower(), records, frozenset(services), HostMask(Path("/"), os.environ))
        shipment = _Shipment(lambda _: sender.send(), lambda: f"{sender.sent_bytes} bytes sent")
        place = CollectorPlace(url, token_file, ca_bundle)
        follower = RecordsFollower(place, name, records, frozenset(services))
        _send(shipment, records.directory, follow=follow, follower=follower)


def _is_given(parameter: str) -> bool:
    """Return True if an option is on the command line, not only in the environment."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is click.core.ParameterSource.COMMANDLINE


def _backend(url: str, headers_file: Path | None, ca_bundle: Path | None) -> "TraceBackend":
    """Return the backend of OpenTelemetry at that address. Close it."""
    require_extra("otlp")
    from service_record.export.trace_backend import TraceBackend  # an extra

    try:
        headers = {} if headers_file is None else read_headers(headers_file)
        return TraceBackend(traces_url(url), headers, ca_bundle=ca_bundle)
    except CollectorError as error:
        raise Unreadable(visible(str(error))) from None


def _ship_traces(
    backend: "TraceBackend", host: str | None, records: Records, services: frozenset[str], *, follow: bool
) -> None:
    """Send the traces of a directory of records. Without a name for the host, they are this host's own."""
    from service_record.export.trace_sending import TraceSender  # an extra

    mask = HostMask(Path("/"), os.environ).text
    sender = TraceSender(backend, host or socket.gethostname(), records, services, mask)
    sender.host_id = None if host else systemd.host_id()
    if not follow:
        sender.mark_seconds = sender.settle_seconds = 0.0
    shipment = _Shipment(
        lambda is_last: sender.send(is_last=is_last),
        lambda: f"{count(sender.sent_spans, 'span')} sent",
        sender.remarks,
        _ONCE_SECONDS,
    )
    _send(shipment, records.directory, follow=follow)
    if not follow and sender.rejected_spans:
        raise NotDelivered(f"the backend refused {count(sender.rejected_spans, 'span')}")


def _send(
    shipment: _Shipment, directory: Path, *, follow: bool, follower: "RecordsFollower | None" = None
) -> None:
    try:
        if follow:
            stop = _StopSignal()
            with follower or nullcontext():
                _follow(shipment, directory, stop)
        else:
            _send_once(shipment)
    except LeakError as leak:
        raise LeakRefused(str(leak)) from None


def _send_templates(client: "CollectorClient", host: str, files: tuple[Path, ...]) -> None:
    """Send rendered templates without the secrets of this host, for the host's present build."""
    rules = make_rules(())
    for file in files:
        try:
            text = outgoing_template(file.read_bytes(), rules)
            path = f"/api/v1/hosts/{quote(host, safe='')}/templates"
            client.send("POST", path, query={"name": file.name}, body=text, content_type="text/plain")
        except OSError as error:
            raise Unreadable(f"cannot read {visible(str(file))}: {error.strerror}") from None
        except LeakError as leak:
            raise LeakRefused(f"{visible(str(file))}: {leak}") from None
        except CollectorError as fault:
            raise NotDelivered(visible(str(fault))) from None
        click.echo(f"{visible(file.name)}: {len(text)} bytes sent", err=True)


def _send_once(shipment: _Shipment) -> None:
    """Send all records once; retry traces that the backend refuses for a while."""
    waits, until = _Waits(), monotonic() + shipment.retry_seconds
    is_retried = shipment.retry_seconds > 0
    while undelivered := _try_to_send(shipment, waits, is_last=True, is_retried=is_retried):
        seconds = waits.next(undelivered)
        if undelivered.is_final or monotonic() + seconds > until:
            raise NotDelivered(visible(str(undelivered)))
        sleep(seconds)
    click.echo(shipment.describe(), err=True)


def _follow(shipment: _Shipment, directory: Path, stop: "_StopSignal") -> None:
    """Send until SIGTERM or SIGINT, and then once more."""
    waits = _Waits()
    null = os.open(os.devnull, os.O_WRONLY)
    with Watch(directory, null) as watch:
        while True:
            is_last = stop.is_received
            watch.aim()
            undelivered = _try_to_send(shipment, waits, is_last=is_last)
            if is_last:
                break
            if undelivered is not None and undelivered.is_final:
                raise NotDelivered(visible(str(undelivered)))
            if undelivered is None:
                watch.wait(None)
                stop.wait(_TOGETHER_SECONDS)
            else:
                stop.wait(waits.next(undelivered))
    if undelivered is not None:
        raise NotDelivered(visible(str(undelivered)))


class _StopSignal:
    """Receives SIGTERM and SIGINT. Threads must be started later, because they inherit the mask of signals.

    The signals stay blocked until this process ends. With handlers, many signals at once would nest without
    end or reach an interpreter that is ending, and either crashes it.
    """

    def __init__(self) -> None:
        self.is_received = False
        self._numbers = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def wait(self, seconds: float) -> None:
        """Wait until a signal has come, at most so many seconds."""
        if not self.is_received:
            self.is_received = signal.sigtimedwait(self._numbers, seconds) is not None


def _try_to_send(
    shipment: _Shipment, waits: "_Waits", *, is_last: bool, is_retried: bool = True
) -> NotTaken | None:
    """Send, and return the reason if not everything was delivered."""
    try:
        shipment.send(is_last)
    except NotTaken as fault:
        if is_retried and not fault.is_final and not waits.is_waiting:
            click.echo(f"Warning: not delivered, and tried again: {visible(str(fault))}", err=True)
        return fault
    finally:
        for remark in shipment.remarks:
            click.echo(f"Warning: {visible(remark)}", err=True)
        shipment.remarks.clear()
    if waits.is_waiting:
        click.echo("Delivered again", err=True)
    waits.reset()
    return None


class _Waits:
    """Waiting times before the next try, which grow and differ between hosts."""

    def __init__(self) -> None:
        self._longest = 0.0

    @property
    def is_waiting(self) -> bool:
        return self._longest > 0

    def next(self, undelivered: NotTaken) -> float:
        """Return the seconds until the next try: what the server asks for, if it does."""
        self._longest = min(_LONGEST_WAIT, self._longest * 2 or _FIRST_WAIT)
        if undelivered.retry_after is not None:
            return undelivered.retry_after
        return self._longest * random.uniform(0.5, 1.0)  # noqa: S311  # no secret

    def reset(self) -> None:
        self._longest = 0.0
