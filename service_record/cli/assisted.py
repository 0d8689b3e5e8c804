"""`service-record assisted`: prepare and follow the hosts of a cluster through its assisted-service."""

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service_record.cli import FAILED, NotDelivered, Unreadable, require_extra
from service_record.cli.ignition import (
    ReporterProgram,
    check_one_input,
    delivery_options,
    merge_inputs,
    read_file,
    read_request,
)
from service_record.cli.options import all_options
from service_record.deploy.assisted.overrides import MARKER, SPEC
from service_record.deploy.delivered import Item, Option
from service_record.deploy.ignition.making import (
    PROGRAM,
    SETTINGS,
    DeliveryRequest,
    add_file,
    items_to_deliver,
    make,
    settings_text,
)
from service_record.deploy.ignition.reading import BadConfigError, Config, items
from service_record.record.visible import visible
from service_record.reporter.settings import token_in

if TYPE_CHECKING:
    from service_record.deploy.assisted.overrides import OverrideChange
    from service_record.deploy.assisted.service import Installer, Recipient
    from service_record.http.collector_client import CollectorClient

_MAX_TOKEN_BYTES: Final = 1 << 18
_ROLE: Final = "master"
"""The role used for all hosts. Only a bootstrap host would get different files."""
_REPORTER_OPTIONS: Final = ("reporter_token_file", "ship_to", "settings", "executable", "executable_hash")


@click.group("assisted")
def command() -> None:
    """Prepare a cluster's hosts through its assisted-service.

    \b
    Example:
      service-record assisted prepare --url URL --cluster-id ID \\
        --token-file FILE --dry-run
    """


_LARGE_OVERRIDE_BYTES: Final = 1 << 20
"""A larger override contains a program. The service sends the overrides whenever it lists the hosts."""


def _cluster_id(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return str(uuid.UUID(value))  # in lower case: the service compares ids as text
    except ValueError:
        raise click.BadParameter(
            f"{visible(value)!r} is not a UUID; use one like 01234567-89ab-cdef-0123-456789abcdef"
        ) from None


_service_options: Final = all_options(
    click.option("--url", metavar="URL", required=True, help="The assisted-service."),
    click.option(
        "--cluster-id", metavar="UUID", required=True, callback=_cluster_id, help="The id of the cluster."
    ),
    click.option("--token-file", metavar="FILE", help="Your token at the service; - for standard input."),
)
_dry_run_option: Final = click.option("--dry-run", is_flag=True, help="Print the changes, and send nothing.")
_ca_bundle_option: Final = click.option("--ca-bundle", metavar="FILE", help="More PEM certificates to trust.")


@command.command("prepare")
@_service_options
@_dry_run_option
@click.option(
    "--discovery", is_flag=True, help="Change the discovery images, for hosts that have not booted yet."
)
@click.option("--reporter-token-file", metavar="FILE", help="The reporter's token, or a pull secret.")
@delivery_options
@click.option(
    "--replace",
    "replacing",
    metavar="PATH",
    multiple=True,
    help="Replace this file of an override with ours.",
)
def prepare_command(
    *, url: str, cluster_id: str, token_file: str | None, dry_run: bool, discovery: bool, **options: Any
) -> None:
    """Put shim, exit helper and boot reporter into the ignition overrides of a cluster's hosts.

    Each host gets its own ids. The present content of an override stays in effect, and `assisted undo`
    restores it. A second call changes nothing. With --discovery, the overrides of the discovery images are
    changed, without the reporter: download the images again.

    \b
    Examples:
      service-record assisted prepare --url URL --cluster-id ID \\
        --token-file FILE --reporter-token-file FILE --executable service-record
      service-record assisted prepare --url URL --cluster-id ID \\
        --token-file FILE --discovery --add live.ign
    """
    require_extra("reporter")
    from service_record.deploy.assisted.overrides import Override, add_to_override, plan  # needs the extra

    used = [name for name in _REPORTER_OPTIONS if options[name]]
    if discovery and used:
        option = f"--{used[0].replace('_', '-')}"
        raise click.UsageError(
            f"{option} is for the reporter, which does not run in discovery images; leave it out"
        )
    files = (options[name] for name in ("reporter_token_file", "settings", "executable"))
    check_one_input(token_file, *files, *options["added"])
    ca_bundle = options["ca_bundle"]
    with _installer(url, _user_token(token_file), ca_bundle) as installer:
        recipients = installer.infra_envs(cluster_id) if discovery else installer.hosts(cluster_id)
        if not recipients and discovery:
            raise Unreadable(f"cluster {cluster_id} has no infra-env; correct --cluster-id, or create one")
        if not recipients:
            raise Unreadable(
                f"cluster {cluster_id} has no hosts; correct --cluster-id, or wait until they register; "
                "--discovery is for hosts that are not there yet"
            )
        delivery = _Delivery(url, cluster_id, options, recipients)
        in_time = [each for each in recipients if not each.is_too_late]
        replacing = options["replacing"]
        changes = plan(
            in_time,
            lambda each: Override(add_to_override(each.override, delivery.config_for(each), replacing)),
        )
        _send(installer, changes, "prepared", dry_run=dry_run, delivery=delivery)
    if size := sum(each.size for each in changes if each.size > _LARGE_OVERRIDE_BYTES):
        warning = (
            f"overrides of {size / (1 << 20):.0f} MiB are in each answer of the service about its hosts; "
            "--executable URL keeps the program out of them"
        )
        click.echo(f"Warning: {warning}", err=True)
    late = [each for each in recipients if each.is_too_late]
    for each in late:
        warning = f"{each}: too late, it is {each.status}; its ignition is made already"
        click.echo(f"Warning: {visible(warning)}", err=True)
    if delivery.needs_program:
        click.echo(f"Note: no --executable; the reporter's units wait until {PROGRAM} is there.", err=True)
    if late:
        raise click.exceptions.Exit(FAILED)


@command.command("undo")
@_service_options
@_dry_run_option
@_ca_bundle_option
def undo_command(
    *, url: str, cluster_id: str, token_file: str | None, dry_run: bool, ca_bundle: str | None
) -> None:
    """Restore the overrides of a cluster to their content before `assisted prepare`.

    It checks all hosts and discovery images. Parts that somebody has added to an override since stay there.

    \b
    Examples:
      service-record assisted undo --url URL --cluster-id ID --token-file FILE
    """
    require_extra("reporter")
    from service_record.deploy.assisted.overrides import plan, remove_from_override  # needs the extra

    with _installer(url, _user_token(token_file), ca_bundle) as installer:
        recipients = (*installer.hosts(cluster_id), *installer.infra_envs(cluster_id))
        changes = plan(recipients, lambda each: remove_from_override(each.override))
        for change in changes:
            for path in change.kept:
                notice = f"{change.recipient}: {path} was changed since, and stays"
                click.echo(f"Warning: {visible(notice)}", err=True)
        _send(installer, changes, "undone", dry_run=dry_run)


@command.command("follow")
@_service_options
@_ca_bundle_option
@click.option("--to", "collector", metavar="URL", help="The collector. [default: $SERVICE_RECORD_COLLECTOR]")
@click.option("--collector-token-file", metavar="FILE", type=Path, help="A token of the collector.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(1),
    default=30.0,
    show_default=True,
    help="Time between two calls.",
)
@click.option("--once", is_flag=True, help="Forward the present events, and exit.")
def follow_command(
    *,
    url: str,
    cluster_id: str,
    token_file: str | None,
    ca_bundle: str | None,
    collector: str | None,
    collector_token_file: Path | None,
    every: float,
    once: bool,
) -> None:
    """Forward a cluster's events from its assisted-service to a collector, oldest first.

    The collector shows the states of the hosts and of the cluster by these events. It stores each event once,
    and an old event never replaces a newer state: start this command again at any time.

    \b
    Examples:
      service-record assisted follow --url URL --cluster-id ID \\
        --token-file FILE --to https://c.example --collector-token-file token
    """
    require_extra("reporter")
    from service_record.http.address import CollectorError
    from service_record.http.collector_client import connect

    forwarded: set[bytes] = set()
    token = _user_token(token_file)  # standard input can be read only once
    bundle = Path(ca_bundle) if ca_bundle else None
    try:
        client = connect(collector, token_file=collector_token_file, ca_bundle=bundle)
    except CollectorError as error:
        raise click.UsageError(visible(str(error))) from None
    with client:
        while True:
            try:
                with _installer(url, token, ca_bundle) as installer:
                    events = installer.events(cluster_id)
                count = _forward(client, events, forwarded)
                if count or once:
                    click.echo(f"{count} events forwarded")
            except NotDelivered as error:
                if once:
                    raise
                click.echo(f"Warning: {error.format_message()}; tried again in {every:g} s", err=True)
            if once:
                return
            time.sleep(every)


def _forward(client: "CollectorClient", events: Iterable[dict[str, Any]], forwarded: set[bytes]) -> int:
    """Send the events that were not sent yet, and return the number of accepted events.

    A refused event is not sent again; a warning names it. Raises NotDelivered if the collector is unreachable
    or busy.
    """
    from service_record.http.address import CollectorError
    from service_record.http.answers import ASK_AGAIN

    count = 0
    for event in events:
        body = json.dumps(event, sort_keys=True).encode()
        digest = hashlib.sha256(body).digest()
        if digest in forwarded:
            continue
        try:
            client.send("POST", "/api/assisted-install/v2/events", body=body)
        except CollectorError as error:
            if error.status is None or error.status in {*ASK_AGAIN, HTTPStatus.UNAUTHORIZED}:
                raise NotDelivered(visible(str(error))) from None
            subject = f"{event.get('event_time')} {event.get('name')}"
            click.echo(f"Warning: {visible(f'{subject}: not taken: {error}')}", err=True)
        else:
            count += 1
        forwarded.add(digest)
    return count


@contextmanager
def _installer(url: str, token: str | None, ca_bundle: str | None) -> Iterator["Installer"]:
    """Yield a client of the service. Its errors and invalid overrides become one line and an exit code."""
    from service_record.deploy.assisted.overrides import PlanError  # needs the extra
    from service_record.deploy.assisted.service import (
        Installer,
        ServiceError,
    )
    from service_record.http.proxies import read_proxies

    if ca_bundle == "-":
        raise click.UsageError("--ca-bundle is read twice, which standard input cannot be; give a file")
    bundle = Path(ca_bundle) if ca_bundle else None
    with Installer(url, token, ca_bundle=bundle, proxies=read_proxies(os.environ)) as installer:
        try:
            yield installer
        except PlanError as error:
            raise Unreadable(visible(str(error))) from None
        except ServiceError as error:
            fault = NotDelivered if error.is_for_later else Unreadable
            raise fault(visible(f"assisted-service: {error}")) from None


def _user_token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        token = read_file(path, _MAX_TOKEN_BYTES).decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        name = "standard input" if path == "-" else visible(path)
        raise click.UsageError(f"{name}: no token; write the token alone into it, without `Bearer`")
    return token


class _Delivery:
    """Makes the config for each host or discovery image."""

    def __init__(
        self, url: str, cluster_id: str, options: dict[str, Any], recipients: Sequence["Recipient"]
    ) -> None:
        """Read all files once, for all recipients. Raises UsageError, Unreadable, OSError."""
        first = recipients[0]
        if first.is_host:
            settings: dict[str, object] = {
                "assisted_service.url": url,
                "assisted_service.cluster_id": cluster_id,
                **_ids(first),
            }
            more = {"token_file": options["reporter_token_file"], "remove": (MARKER,)}
            request, program = read_request(_ROLE, options | more, settings)
        else:
            live = {name: options[name] for name in ("closes", "all_services", "array")}
            request, program = DeliveryRequest(role=_ROLE, **live), ReporterProgram()
        items = (item for item in items_to_deliver(request) if item.path != SETTINGS)
        self._settings = request.settings
        self.secrets = () if request.token is None else (token_in(request.token),)
        try:
            self._common = merge_inputs(make(items, SPEC, program.remote), options["added"])
        except BadConfigError as error:
            raise Unreadable(visible(str(error))) from None
        self.needs_program = first.is_host and not program.is_given

    def config_for(self, recipient: "Recipient") -> Config:
        """Return the config for a recipient, with its ids in the reporter's settings."""
        if self._settings is None:
            return self._common
        text = settings_text(self._settings, _ids(recipient))
        return add_file(self._common, Item(SETTINGS, Option.REPORTER, text.encode(), 0o600))


def _ids(recipient: "Recipient") -> dict[str, object]:
    return {
        "assisted_service.infra_env_id": recipient.infra_env_id,
        "assisted_service.host_id": recipient.host_id,
    }


def _send(
    installer: "Installer",
    changes: Iterable["OverrideChange"],
    done: str,
    *,
    dry_run: bool,
    delivery: _Delivery | None = None,
) -> None:
    for change in changes:
        recipient = change.recipient
        if not change.is_needed:
            click.echo(visible(f"{recipient}: unchanged"))
            continue
        size = f"{change.size:,} bytes"
        if dry_run:
            click.echo(visible(f"{recipient}: would send PATCH {recipient.path}, {size}"))
            if delivery is not None:
                # Without contents, which include tokens and passwords.
                config = delivery.config_for(recipient)
                for _, node in items(config, "storage.files"):
                    click.echo(visible(f"  file {node['path']} {node.get('mode', 0o644):04o}"))
                for _, unit in items(config, "systemd.units"):
                    click.echo(visible(f"  unit {unit['name']}{', enabled' if unit.get('enabled') else ''}"))
            continue
        installer.set_override(recipient, change.text, () if delivery is None else delivery.secrets)
        click.echo(visible(f"{recipient}: {done}, {size}"))
