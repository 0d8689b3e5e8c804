"""`service-record collector`: receive from many hosts."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from service_record.cli import FAILED, Unreadable, require_extra
from service_record.cli.collector_care import (
    audit_command,
    backup_command,
    data_option,
    database_option,
    keep_options,
    make_folder,
    objects_option,
    prune_command,
    restore_command,
    token,
)
from service_record.cli.options import DURATION, EXISTING_FILE, Number
from service_record.collector.domain.silence import DEFAULT
from service_record.record.visible import visible


@click.group("collector")
def command() -> None:
    """Receive from many hosts how far they came, and show it.

    \b
    Examples:
      service-record collector serve --data /srv/collector
      service-record collector token create host web1
    """


@command.command("serve")
@data_option
@database_option
@objects_option
@click.option(
    "--steps",
    type=EXISTING_FILE,
    multiple=True,
    help="TOML file with the steps that hosts may report; repeatable. [default: any step]",
)
@click.option(
    "--budget",
    type=DURATION,
    default=DEFAULT,
    metavar="DURATION",
    help="Time without a report after which a host is stuck, unless its step sets one. [default: 15m]",
)
@click.option(
    "--loop-after",
    type=click.IntRange(2, 1000),
    default=3,
    show_default=True,
    metavar="N",
    help="A host is looping if it booted, or began a step, N times in a row without progress.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8474,
    show_default=True,
    help="Port to listen at; 0 for any free port.",
)
@click.option("--certificate", type=EXISTING_FILE, help="PEM certificate; with it, only TLS is accepted.")
@click.option("--key", type=EXISTING_FILE, help="PEM of its private key.")
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Trusted proxy for X-Forwarded-For and -Proto; repeatable. [default: none]",
)
@click.option(
    "--rate",
    type=Number(0.1, 1e6),
    default=50,
    show_default=True,
    help="Requests a second of one host or token; bursts may be four times as large.",
)
@keep_options
@click.option("--webhook", default="", metavar="URL", help="URL to notify when a verdict changes.")
@click.option(
    "--webhook-secret-file", type=EXISTING_FILE, help="File with the secret that signs notifications."
)
@click.option(
    "--notices",
    type=EXISTING_FILE,
    help="TOML file with the mail, chats and pagers to notify when a verdict changes.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info")
def serve_command(
    *, rate: float, webhook: str, webhook_secret_file: Path | None, notices: Path | None, **options: Any
) -> None:
    """Serve until SIGTERM."""
    require_extra("collector")
    if webhook:
        require_extra("client")
    if notices:
        require_extra("notices")
    from service_record.collector.process import NoticesError, StepsError
    from service_record.collector.serve import serve  # only where it serves
    from service_record.collector.serving_settings import CollectorSettings, Rates
    from service_record.collector.store.database import DatabaseError
    from service_record.collector.store.objects import ObjectError

    _check_webhook(webhook)
    _check_proxies(options["proxies"])
    if options["key"] and not options["certificate"]:
        raise click.UsageError("--key needs --certificate; name the file with its certificate")
    settings = CollectorSettings(
        **options,
        rates=Rates(per_second=rate, burst=max(1, round(4 * rate))),
        webhook=webhook,
        webhook_secret=_read_secret(webhook_secret_file),
        webhook_secret_file=webhook_secret_file,
        notices=notices,
    )
    make_folder(settings.data)
    try:
        serve(settings)
    except (StepsError, NoticesError, DatabaseError, ObjectError) as error:
        raise Unreadable(visible(str(error))) from None
    except OSError as error:
        where = visible(str(error.filename or f"{settings.host}:{settings.port}"))
        raise Unreadable(f"{where}: {error.strerror or error}") from None


def _check_webhook(url: str) -> None:
    from service_record.http.proxies import split_url  # only where one is given

    if url and split_url(url) is None:
        raise click.UsageError("--webhook: not a valid URL; use http://HOST/... or https://HOST/...")


def _check_proxies(proxies: Iterable[str]) -> None:
    from ipaddress import ip_network

    for proxy in proxies:
        try:
            ip_network(proxy, strict=False)
        except ValueError:
            reason = f"{visible(proxy)!r} is no address of a proxy, and no network such as 10.0.0.0/8"
            raise click.UsageError(f"--proxy: {reason}") from None


def _read_secret(file: Path | None) -> bytes:
    from service_record.collector.ingest.senders import read_secret

    try:
        return read_secret(file) if file else b""
    except ValueError as error:
        raise click.UsageError(f"{file}: {error}") from None


@command.command("notices")
@click.argument("file", type=EXISTING_FILE)
def notices_command(file: Path) -> None:
    """Send a test message to each destination of FILE, as `serve --notices` takes it.

    \b
    Example:
      service-record collector notices /etc/service-record/notices.toml
    """
    require_extra("collector")
    require_extra("notices")
    from service_record.collector.domain.destinations import DestinationError
    from service_record.collector.ingest.senders import try_all
    from service_record.collector.process import NoticesError, read_destinations

    try:
        results = try_all(read_destinations(file), time.time())
    except DestinationError as error:
        raise Unreadable(f"{file}: {visible(str(error))}") from None
    except NoticesError as error:
        raise Unreadable(visible(str(error))) from None
    for name, is_taken in results.items():
        click.echo(f"{name}: {'taken' if is_taken else 'not taken'}")
    if not all(results.values()):
        raise click.exceptions.Exit(FAILED)


command.add_command(token)
for care in (audit_command, backup_command, prune_command, restore_command):
    command.add_command(care)
