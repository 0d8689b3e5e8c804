"""`service-record ignition`: what `install` puts onto a host, for hosts that are made by Ignition."""

import errno
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from service_record.cli import UNREADABLE
from service_record.cli.ignition_inputs import (
    Program,
    check_one_input,
    delivery_options,
    read_file,
    read_wanted,
    with_added,
)
from service_record.deploy.for_ignition import PROGRAM, ROLES, Wanted, delivered
from service_record.deploy.ignition import machine_config
from service_record.deploy.ignition.butane import VARIANTS, butane
from service_record.deploy.ignition.checking import insist, insist_on_assisted_service
from service_record.deploy.ignition.fault import BadConfigError, Fault
from service_record.deploy.ignition.machine_config import POOLS
from service_record.deploy.ignition.making import make
from service_record.deploy.ignition.merging import merge
from service_record.deploy.ignition.reading import Config, read_config
from service_record.deploy.ignition.versions import (
    DEFAULT,
    DEFAULT_FOR_ASSISTED_SERVICE,
    TAKEN_BY_ASSISTED_SERVICE,
    VERSIONS,
)
from service_record.display.text import visible
from service_record.display.yaml import as_yaml
from service_record.reporter.durable import write_whole

_FORMATS: Final = ("ignition", "machineconfig", "butane")
_IDS: Final = ("url", "cluster_id", "infra_env_id", "host_id")
_OF_A_POOL: Final = ("master", "worker")


@dataclass(frozen=True, slots=True)
class _Form:
    """As what the config is written."""

    name: str
    role: str
    variant: str
    is_patch: bool


@click.command("ignition")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What the host is to become.")
@click.option("--url", metavar="URL", help="The assisted-service that the reporter reports to.")
@click.option("--cluster-id", metavar="UUID", help="The host's cluster there.")
@click.option("--infra-env-id", metavar="UUID", help="The host's infra-env there.")
@click.option("--host-id", metavar="UUID", help="The host there.")
@click.option("--token-file", metavar="FILE", help="The reporter's token; - for standard input.")
@delivery_options
@click.option("--merge", "base", metavar="BASE.ign", help="Put it into this config; - for standard input.")
@click.option(
    "--replace",
    "replacing",
    metavar="PATH",
    multiple=True,
    help="Ours in the place of that file of BASE.ign.",
)
@click.option(
    "--spec",
    type=click.Choice(VERSIONS),
    help=f"Of Ignition. [default: {DEFAULT}; {DEFAULT_FOR_ASSISTED_SERVICE} with --assisted-host-patch]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default=_FORMATS[0],
    show_default=True,
    help="Of what is made.",
)
@click.option(
    "--variant", type=click.Choice(list(VARIANTS)), default="fcos", show_default=True, help="Of Butane."
)
@click.option(
    "--assisted-host-patch", "is_patch", is_flag=True, help="The body of assisted-service's PATCH …/ignition."
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write it there, 0600.")
def command(
    *,
    role: str,
    base: str | None,
    replacing: tuple[str, ...],
    spec: str | None,
    form: str,
    variant: str,
    is_patch: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Make an Ignition config of what hosts record and report with.

    It brings the shim and the exit helper. With --url and the ids, or --ship-to, or --settings, it brings the
    boot reporter, too. A bootstrap host records arrays, and systemd closes OpenShift's services there.

    \b
    Examples:
      service-record ignition --role worker -o worker.ign
      service-record ignition --role bootstrap --merge bootstrap.ign \\
        --replace /usr/local/bin/bootstrap-service-record.sh -o recorded.ign
      service-record ignition --role master --format machineconfig
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    wanted_form = _Form(form, role, variant, is_patch)
    _check(wanted_form, base, replacing, options)
    spec = _spec(spec, is_patch=is_patch)
    files = (base, options["token_file"], options["settings"], options["ca_bundle"], *options["added"])
    check_one_input(*files)
    wanted, program = _wanted(wanted_form, options)
    try:
        ours = with_added(make(delivered(wanted), spec, program.remote), options["added"])
        insist(ours)
        config = ours if base is None else _merged(base, ours, replacing)
        text = _written(config, wanted_form)
    except BadConfigError as error:
        where = f"{_named(base)}: " if base is not None else ""
        click.echo(f"Error: {where}{visible(str(error))}", err=True)
        raise click.exceptions.Exit(UNREADABLE) from None
    _put(text, output)
    if wanted.settings is not None and not program.is_given:
        click.echo(f"Note: no --executable; the reporter's units wait until {PROGRAM} is there.", err=True)


def _check(form: _Form, base: str | None, replacing: tuple[str, ...], options: dict[str, Any]) -> None:
    """Options that do not go together. Raises UsageError."""
    if replacing and base is None:
        raise click.UsageError("--replace is of files of a config that --merge names")
    if form.is_patch and form.name != "ignition":
        raise click.UsageError("--assisted-host-patch is an Ignition config; leave --format out")
    if form.name == "butane" and (base is not None or options["added"]):
        raise click.UsageError("a Butane config of ours is merged by Butane: ignition.config.merge, local")
    is_object = form.name == "machineconfig" or (form.name == "butane" and form.variant == "openshift")
    if is_object:
        _check_object(form, options)
    reports = any(options[name] for name in (*_IDS, "ship_to", "settings"))
    alone = [name for name in ("token_file", "ca_bundle", "executable") if options[name]]
    if alone and not reports:
        option = f"--{alone[0].replace('_', '-')}"
        raise click.UsageError(f"{option} is the reporter's; say where it reports to, as --url or --ship-to")


def _spec(given: str | None, *, is_patch: bool) -> str:
    """The version of what is made. Raises UsageError where an assisted-service does not read it."""
    if is_patch and given not in {None, *TAKEN_BY_ASSISTED_SERVICE}:
        known = " and ".join(TAKEN_BY_ASSISTED_SERVICE)
        raise click.UsageError(f"an assisted-service takes {known} only; leave --spec out")
    return given or (DEFAULT_FOR_ASSISTED_SERVICE if is_patch else DEFAULT)


def _check_object(form: _Form, options: dict[str, Any]) -> None:
    """What does not belong into a MachineConfig, which is of many hosts and for many eyes."""
    if form.role not in POOLS:
        raise click.UsageError("the bootstrap host takes no MachineConfig; make an Ignition config for it")
    if options["token_file"]:
        raise click.UsageError(
            "a MachineConfig is no place for a token: all who may read it would; --assisted-host-patch is one"
        )
    if options["executable"]:
        raise click.UsageError(
            "a MachineConfig is too small for the executable, and nothing is fetched by it"
        )
    if options["host_id"] and form.role in _OF_A_POOL:
        raise click.UsageError(f"a MachineConfig is of all hosts of {form.role}; --host-id is of one")


def _wanted(form: _Form, options: dict[str, Any]) -> tuple[Wanted, Program]:
    given: dict[str, object] = {f"assisted_service.{name}": options[name] for name in _IDS if options[name]}
    is_object = form.name == "machineconfig" or form.variant == "openshift"
    return read_wanted(form.role, options, given, is_object=is_object)


def _merged(base: str, ours: Config, replacing: Iterable[str]) -> Config:
    theirs = read_config(read_file(base))
    for warning in insist(theirs):
        click.echo(f"Warning: {_named(base)}: {visible(str(warning))}", err=True)
    return merge(theirs, ours, replacing)


def _written(config: Config, form: _Form) -> str:
    if form.name == "butane":
        return as_yaml(butane(config, form.role, form.variant))
    if form.name == "machineconfig":
        text = as_yaml(machine_config.machine_config(config, form.role))
        if len(text) > machine_config.MOST:
            what = f"{len(text):,} bytes; a MachineConfig has room for {machine_config.MOST:,}"
            raise BadConfigError((Fault("", what),))
        return text
    text = json.dumps(config, ensure_ascii=False, separators=(",", ":"))
    if form.is_patch:
        insist_on_assisted_service(config)
        text = json.dumps({"config": text}, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n"


def _put(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(text.encode())
        return
    place = output.resolve()
    if place.exists() and not place.is_file():
        raise click.UsageError(f"{visible(str(output))} is no file to replace")
    if not place.parent.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(output.parent))
    write_whole(place, text.encode())


def _named(path: str) -> str:
    return "standard input" if path == "-" else visible(path)
