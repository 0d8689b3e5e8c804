"""`service-record ship`: send records to a collector, as they are written."""

import os
import random
import signal
import socket
import threading
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from service_record.cli import REFUSED
from service_record.cli.inputs import Unreadable
from service_record.cli.options import service_argument
from service_record.cli.redacting import rules_with
from service_record.client.address import (
    CA_VARIABLE,
    TOKEN_VARIABLE,
    URL_VARIABLE,
    CollectorError,
    address_of,
)
from service_record.client.calls import CollectorClient, connect
from service_record.client.sending import NotTaken, Sender
from service_record.follow.watching import Watch
from service_record.record.directory import Records
from service_record.record.visible import visible
from service_record.redaction.outgoing import HostMask, LeakError, outgoing_template

NOT_DELIVERED: Final = 75
_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
_TOGETHER: Final = 0.2
"""Seconds that what is written waits for more: one request carries all of it."""
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


@click.command("ship")
@service_argument
@click.option(
    "--to",
    "url",
    metavar="URL",
    envvar=URL_VARIABLE,
    required=True,
    help=f"The collector: https://HOST, or collector://HOST[:PORT][/NAME]. [${URL_VARIABLE}]",
)
@click.option("--host", metavar="NAME", help="What the collector calls this host. [default: its name]")
@click.option(
    "--template",
    "templates",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    multiple=True,
    help="Send this rendered template instead of records: a kickstart, a preseed. Repeatable.",
)
@click.option("--follow", is_flag=True, help="Go on with what is written from now on, until SIGTERM.")
@click.option(
    "--from",
    "directory",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path, file_okay=False),
    help="Records of this directory. [default: $SERVICE_RECORDS_DIR, else /var/log/openshift]",
)
@click.option(
    "--token-file",
    type=_FILE,
    envvar=TOKEN_VARIABLE,
    metavar="FILE",
    help="With the token, and nothing else.",
)
@click.option(
    "--ca-bundle", type=_FILE, envvar=CA_VARIABLE, metavar="FILE", help="Certificates to trust besides. PEM."
)
def command(
    *,
    services: tuple[str, ...],
    url: str,
    host: str | None,
    templates: tuple[Path, ...],
    follow: bool,
    directory: Path | None,
    token_file: Path | None,
    ca_bundle: Path | None,
) -> None:
    """Send records to a collector, as they are written.

    Secrets of this host are masked. What the collector has already is not sent again, whoever sent it and
    whenever. What cannot be delivered ends it with 75; with --follow it goes on until it can be.

    \b
    Examples:
      service-record ship --to https://collector.example --follow
      service-record ship --to collector://collector.example/web1 bootkube
      service-record ship --to https://collector.example --template /root/anaconda-ks.cfg
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    if templates and (follow or services or directory):
        raise click.UsageError("--template sends no records: leave out --follow, --from and services")
    records = Records(directory)
    try:
        name = host or address_of(url).host or socket.gethostname()
        client = connect(url, token_file=token_file, ca_bundle=ca_bundle)
    except CollectorError as error:
        raise Unreadable(visible(str(error))) from None
    with client:
        if templates:
            _send_templates(client, name.lower(), templates)
            return
        sender = Sender(client, name.lower(), records, frozenset(services), HostMask(Path("/"), os.environ))
        try:
            if follow:
                _follow(sender, records.directory)
            else:
                _once(sender)
        except LeakError as leak:
            raise _Leaking(str(leak)) from None


def _send_templates(client: CollectorClient, host: str, files: tuple[Path, ...]) -> None:
    """Send rendered templates without the secrets of this host, for the host's present build."""
    rules = rules_with(())
    for file in files:
        try:
            text = outgoing_template(file.read_bytes(), rules)
            path = f"/api/v1/hosts/{quote(host, safe='')}/templates"
            client.send("POST", path, query={"name": file.name}, body=text, content_type="text/plain")
        except OSError as error:
            raise Unreadable(f"cannot read {visible(str(file))}: {error.strerror}") from None
        except LeakError as leak:
            raise _Leaking(f"{visible(str(file))}: {leak}") from None
        except CollectorError as fault:
            raise _RecordsNotDelivered(visible(str(fault))) from None
        click.echo(f"{visible(file.name)}: {len(text)} bytes sent", err=True)


def _once(sender: Sender) -> None:
    try:
        sender.send()
    except NotTaken as fault:
        raise _RecordsNotDelivered(visible(str(fault))) from None
    click.echo(f"{sender.sent_bytes} bytes sent", err=True)


def _follow(sender: Sender, directory: Path) -> None:
    """Send until SIGTERM or SIGINT, and what is there by then."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    waits = _Waits()
    nobody = os.open(os.devnull, os.O_WRONLY)
    with Watch(directory, nobody) as watch:
        while True:
            is_last = stopping.is_set()
            watch.aim()
            undelivered = _tried(sender, waits)
            if is_last:
                break
            if undelivered is not None and undelivered.is_final:
                raise _RecordsNotDelivered(visible(str(undelivered)))
            if undelivered is None:
                watch.wait(None)
                stopping.wait(_TOGETHER)
            else:
                stopping.wait(waits.next())
    if undelivered is not None:
        raise _RecordsNotDelivered(visible(str(undelivered)))


def _tried(sender: Sender, waits: "_Waits") -> NotTaken | None:
    """Return why not all was delivered; None when it was."""
    try:
        sender.send()
    except NotTaken as fault:
        if not waits.is_waiting:
            click.echo(f"Warning: not delivered, and tried again: {visible(str(fault))}", err=True)
        return fault
    if waits.is_waiting:
        click.echo("Delivered again", err=True)
    waits.reset()
    return None


class _Leaking(click.ClickException):
    """A secret would have left the host."""

    exit_code = REFUSED


class _Waits:
    """How long to wait before another try: longer each time, and not all hosts at once."""

    def __init__(self) -> None:
        self._longest = 0.0

    @property
    def is_waiting(self) -> bool:
        return self._longest > 0

    def next(self) -> float:
        self._longest = min(_LONGEST_WAIT, self._longest * 2 or _FIRST_WAIT)
        return self._longest * random.uniform(0.5, 1.0)  # noqa: S311  # no secret

    def reset(self) -> None:
        self._longest = 0.0


class _RecordsNotDelivered(click.ClickException):
    """What could not be delivered; later it may be."""

    exit_code = NOT_DELIVERED
