"""`service-record preflight`: whether this host and its network are ready for an installation."""

import ipaddress
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import click

from service_record.cli import FAILED, MissingExtra, require_extra
from service_record.cli.options import EXISTING_FILE, output_option
from service_record.cli.shared_answers import ChecksAnswer
from service_record.cli.terminal import OutputForm, display_options, emit
from service_record.preflight.checks import (
    ROLES,
    CheckResult,
    is_failed,
    not_checked,
)
from service_record.preflight.probes import (
    check_cpus,
    check_disk,
    check_free,
    check_memory,
    check_names,
    check_time,
)
from service_record.preflight.registry import Image, check_images, read_image
from service_record.record.programs import Deadline
from service_record.record.visible import visible
from service_record.reporter.gather.network import run_in_thread

_DISK_SECONDS: Final = 20.0
_OTHER_SECONDS: Final = 35.0
"""The disk is measured alone, and then everything else at the same time: less than a minute together."""
_DOMAIN: Final = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+"
)
_MAX_DOMAIN: Final = 200
_MAX_ADDRESSES: Final = 256
_PLACE: Final = click.Path(path_type=Path)


def _parse_domain(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (len(value) > _MAX_DOMAIN or not _DOMAIN.fullmatch(value)):
        raise click.BadParameter(f"'{visible(value)}' is not a valid domain; use CLUSTER.BASE-DOMAIN")
    return value


def _parse_addresses(
    _context: click.Context, _parameter: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """Return the addresses. A subnet stands for the addresses of all its hosts."""
    addresses: list[str] = []
    try:
        for value in values:
            if "/" in value:
                addresses += map(str, islice(ipaddress.ip_network(value).hosts(), _MAX_ADDRESSES + 1))
            else:
                addresses.append(str(ipaddress.ip_address(value)))
    except ValueError as error:
        raise click.BadParameter(visible(str(error))) from None
    if len(addresses) > _MAX_ADDRESSES:
        raise click.BadParameter(f"more than {_MAX_ADDRESSES} addresses; name a smaller subnet")
    return tuple(dict.fromkeys(addresses))


def _parse_images(
    _context: click.Context, _parameter: click.Parameter, values: Sequence[str]
) -> tuple[Image, ...]:
    try:
        return tuple(dict.fromkeys(map(read_image, values)))
    except ValueError as error:
        raise click.BadParameter(visible(str(error))) from None


@click.command("preflight")
@click.option("--role", type=click.Choice(list(ROLES)), default="single-node", show_default=True)
@click.option("--domain", callback=_parse_domain, metavar="CLUSTER.BASE", help="The cluster's domain.")
@click.option(
    "--free",
    metavar="ADDRESS|SUBNET",
    multiple=True,
    callback=_parse_addresses,
    help="An address that no host may have yet, or a subnet of them; repeatable.",
)
@click.option(
    "--release-image",
    "images",
    metavar="IMAGE",
    multiple=True,
    callback=_parse_images,
    help="An image to be pulled, HOST/NAME:TAG or HOST/NAME@DIGEST; repeatable.",
)
@click.option("--pull-secret", metavar="FILE", type=_PLACE, help="The credentials of registries.")
@click.option(
    "--ca-bundle",
    metavar="FILE",
    type=EXISTING_FILE,
    help="More PEM certificates to trust, for a mirror registry.",
)
@click.option(
    "--disk",
    metavar="DIRECTORY|DEVICE",
    type=_PLACE,
    default=Path("/var/lib"),
    show_default=True,
    help="A directory on the disk for etcd or, in a live system before the installation, the disk itself.",
)
@output_option(about="table, wide: a line for each check, wrapped or not")
@display_options
def command(
    *,
    role: str,
    domain: str | None,
    free: tuple[str, ...],
    images: tuple[Image, ...],
    pull_secret: Path | None,
    ca_bundle: Path | None,
    disk: Path,
    form: OutputForm,
) -> None:
    """Check whether host and network are ready for an installation.

    A line for each check says what was measured, and what to do. What cannot be checked is "not checked",
    and no failure. It takes a minute at most, and leaves nothing behind: only the disk is written to, in
    a file without a name.

    \b
    Examples:
      service-record preflight                        what needs no domain
      service-record preflight --domain sno.example.com --disk /var/lib/etcd
      service-record preflight --domain lab.example.com --free 192.0.2.10
      service-record preflight --release-image HOST/NAME:TAG --pull-secret FILE
    """
    needs = ROLES[role]
    disk_results = _answers("disk", run_in_thread(lambda: [check_disk(disk, needs)]), _DISK_SECONDS)
    checks: list[tuple[str, Callable[[], Sequence[CheckResult]]]] = [
        ("names", lambda: [*check_names(domain, needs)]),
        *((f"address {each}", partial(lambda one: [check_free(one)], each)) for each in free),
    ]
    for host in dict.fromkeys(image.host for image in images) or [""]:
        of_host = tuple(image for image in images if image.host == host)
        checks.append(("registry", partial(_check_registry, of_host, pull_secret, ca_bundle)))
    # Each check has a thread, which is abandoned if it takes too long, for example on a dead disk.
    questions = [(check, run_in_thread(measure)) for check, measure in checks]
    deadline = Deadline(_OTHER_SECONDS)
    results = [
        result for check, asked in questions for result in _answers(check, asked, deadline.seconds_left())
    ]
    results += [*disk_results, check_memory(needs), check_cpus(needs), check_time()]
    emit(ChecksAnswer("Preflight checks", results, needs.name), form)
    if is_failed(results):
        raise click.exceptions.Exit(FAILED)


def _check_registry(
    images: tuple[Image, ...], pull_secret: Path | None, ca_bundle: Path | None
) -> Sequence[CheckResult]:
    if not images:
        advice = "Name it: --release-image HOST/NAME:TAG."
        return [not_checked(check, "no release image", advice) for check in ("registry", "release image")]
    try:
        require_extra("client")
    except MissingExtra as error:
        return [not_checked(check, error.message) for check in ("registry", "release image")]
    return check_images(images, pull_secret, ca_bundle)


def _answers(check: str, results: Future[Sequence[CheckResult]], seconds: float) -> Sequence[CheckResult]:
    """Wait at most `seconds` for the results. A check that fails or takes too long is "not checked"."""
    try:
        return results.result(seconds)
    except TimeoutError:
        return [not_checked(check, "it took too long")]
    except Exception as error:  # noqa: BLE001  # the other checks must still run
        return [not_checked(check, f"{type(error).__name__}: {error}")]
