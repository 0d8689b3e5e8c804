"""`service-record ignition`: make an Ignition config with the files and units of `service-record install`.

One input file can be standard input. The reporter's settings are checked in the same way as on a host.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from service_record.cli import Unreadable
from service_record.cli.options import all_options, unit_names
from service_record.deploy.ignition import other_forms, reading, urls
from service_record.deploy.ignition.checking import require_assisted_service_version, require_valid
from service_record.deploy.ignition.making import (
    CA_BUNDLE,
    PROGRAM,
    ROLES,
    DeliveryRequest,
    RemoteFile,
    items_to_deliver,
    make,
    settings_text,
)
from service_record.deploy.ignition.merging import merge
from service_record.deploy.ignition.other_forms import POOLS, VARIANTS, make_butane
from service_record.deploy.ignition.reading import (
    DEFAULT,
    DEFAULT_FOR_ASSISTED_SERVICE,
    TAKEN_BY_ASSISTED_SERVICE,
    VERSIONS,
    BadConfigError,
    Config,
    ConfigFault,
    read_config,
)
from service_record.display.machine import format_yaml
from service_record.record.atomic_write import write_whole
from service_record.record.visible import visible
from service_record.reporter.paths import Places
from service_record.reporter.settings import read_settings

MOST: Final = 64 << 20
_MAX_TOKEN_BYTES: Final = 1 << 18
_URL_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PROGRAM_MAGIC: Final = (b"\x7fELF", b"#!")
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_FILE_MODE: Final = 0o600


delivery_options: Final = all_options(
    click.option("--ca-bundle", metavar="FILE", help="More PEM certificates for the reporter to trust."),
    click.option(
        "--ship-to", metavar="URL", multiple=True, help="One more destination of bundles; repeatable."
    ),
    click.option("--settings", metavar="FILE", help="More settings of the reporter: a reporter.toml."),
    click.option("--executable", metavar="URL|FILE", help="The reporter as one executable file."),
    click.option("--executable-hash", metavar="HASH", help="Its sha512-… or sha256-…; needed with a URL."),
    click.option(
        "--close",
        "closes",
        metavar="SERVICE",
        multiple=True,
        callback=unit_names,
        help="Let systemd close the record of this service; repeatable.",
    ),
    click.option("--all-services", is_flag=True, help="Let systemd close the record of every service."),
    click.option(
        "--array", is_flag=True, help="Let every service record an array, as OpenShift's tools read it."
    ),
    click.option(
        "--add",
        "added",
        metavar="CONFIG.ign",
        multiple=True,
        help="An Ignition config of your own to merge into it; repeatable.",
    ),
)
"""Adds the options for the files and settings to deliver."""


@dataclass(frozen=True, slots=True)
class ReporterProgram:
    """The reporter's executable: part of the config, downloaded by Ignition, or neither."""

    data: bytes | None = field(default=None, repr=False)
    remote: tuple[RemoteFile, ...] = ()

    @property
    def is_given(self) -> bool:
        return self.data is not None or bool(self.remote)


def read_file(path: str, most: int = MOST) -> bytes:
    """Read a file, or standard input for `-`. Raises OSError, and UsageError beyond `most` bytes."""
    if path == "-":
        data = sys.stdin.buffer.read(most + 1)
    else:
        with Path(path).open("rb") as file:
            data = file.read(most + 1)
    if len(data) > most:
        raise click.UsageError(
            f"{_input_name(path)} has more than {most:,} bytes; check that it is the file you mean"
        )
    return data


def read_token_file(path: str | None) -> bytes | None:
    """Return the content of a token file. Raises OSError, and UsageError if the file is empty."""
    if path is None:
        return None
    token = read_file(path, _MAX_TOKEN_BYTES)
    if not token.strip():
        raise click.UsageError(f"{_input_name(path)} is empty; write the token into it")
    return token


def read_certificates(path: str | None) -> bytes | None:
    """Return the content of a CA bundle. Raises OSError, and UsageError if it has no PEM certificate."""
    if path is None:
        return None
    data = read_file(path)
    if _CERTIFICATE not in data:
        raise click.UsageError(
            f"{_input_name(path)} has no certificate in PEM form; convert it with openssl x509"
        )
    return data


def read_program(place: str | None, hash_text: str | None) -> ReporterProgram:
    """Return the executable from a file, or a reference to a URL, which is not downloaded.

    Raises UsageError if it is not a program, or if the hash is missing or different.
    """
    if place is None:
        if hash_text is not None:
            raise click.UsageError("--executable-hash needs --executable, the file it belongs to; give both")
        return ReporterProgram()
    if hash_text is not None:
        _check_value(lambda: urls.check_hash(hash_text), "--executable-hash")
    if _URL_SCHEME.match(place):
        if hash_text is None:
            raise click.UsageError("what is fetched has to be verified: add --executable-hash sha512-…")
        _check_value(lambda: urls.check_url(place), "--executable")
        return ReporterProgram(remote=(RemoteFile(PROGRAM, place, hash_text.lower()),))
    data = read_file(place)
    if not data.startswith(_PROGRAM_MAGIC):
        raise click.UsageError(
            f"{_input_name(place)} is not a program: neither ELF nor a script; "
            "name the executable that make standalone makes"
        )
    if hash_text is not None:
        _check_value(lambda: urls.check_data_hash(data, hash_text), visible(place))
    return ReporterProgram(data)


def reporter_settings(
    path: str | None, values: Mapping[str, object], token: bytes | None, *, is_given: bool
) -> str | None:
    """Return the text of reporter.toml; None without any settings.

    Raises OSError, and UsageError with the reporter's own message if the reporter would reject the settings.
    """
    if path is None and not is_given:
        return None
    try:
        text = settings_text("" if path is None else read_file(path, 1 << 16).decode(), values)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else visible(str(error))
        raise click.UsageError(f"{visible(path or '')}: {why}") from None
    for fault in _settings_faults(text, token, has_bundle=CA_BUNDLE in values.values()):
        raise click.UsageError(fault)
    return text


def _settings_faults(text: str, token: bytes | None, *, has_bundle: bool) -> Iterator[str]:
    """Yield the reporter's errors for these settings, except for a missing token.

    The reporter's own code reads the settings, from a temporary directory in place of the host's root.
    """
    with TemporaryDirectory() as directory:
        places = Places(Path(directory))
        host_files = {places.settings_file: text.encode()}
        if token is not None:
            host_files[places.credential_file] = token
        if has_bundle:
            host_files[places.at(CA_BUNDLE)] = _CERTIFICATE
        for path, data in host_files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=_FILE_MODE)
            path.write_bytes(data)
        for fault in read_settings(places, {}).faults:
            message = fault.replace(directory, "")
            if token is not None or ": no token" not in message:
                yield visible(message)


def _input_name(path: str) -> str:
    return "standard input" if path == "-" else visible(path)


def _check_value(check: Callable[[], None], where: str) -> None:
    """Convert a ValueError of `check` to a UsageError that names the option or file."""
    try:
        check()
    except ValueError as error:
        raise click.UsageError(f"{where}: {error}") from None


def read_request(
    role: str, options: Mapping[str, Any], values: dict[str, object], *, is_object: bool = False
) -> tuple[DeliveryRequest, ReporterProgram]:
    """Read all input files and return the delivery that the options describe.

    `values` are the reporter's settings from options; more are added to it here. `is_object` is True if the
    result becomes a MachineConfig. Raises UsageError and OSError.
    """
    token = read_token_file(options["token_file"])
    bundle = read_certificates(options["ca_bundle"])
    program = read_program(options["executable"], options["executable_hash"])
    if options["ship_to"]:
        values["ship_to"] = list(options["ship_to"])
    is_given = bool(values)
    removed = list(options.get("remove", ()))
    if bundle is not None:
        values["assisted_service.ca_bundle"] = CA_BUNDLE
        removed.append(CA_BUNDLE)
    if program.is_given:
        removed.append(PROGRAM)
    if is_object:
        # The machine-config operator reports a host as degraded if a file of its MachineConfig is missing.
        values["keep_after"] = ["settings", "units"]
    elif removed:
        values["remove"] = removed
    request = DeliveryRequest(
        role=role,
        closes=options["closes"],
        all_services=options["all_services"],
        array=options["array"],
        settings=reporter_settings(options["settings"], values, token, is_given=is_given),
        token=token,
        ca_bundle=bundle,
        program=program.data,
    )
    return request, program


def merge_inputs(ours: Config, added: Iterable[str]) -> Config:
    """Merge the user's configs into ours. Raises OSError, and BadConfigError with the name of the file."""
    for path in added:
        try:
            theirs = read_config(read_file(path))
            require_valid(theirs)
            ours = merge(ours, theirs)
        except BadConfigError as error:
            raise BadConfigError(
                tuple(ConfigFault(_input_name(path), str(fault)) for fault in error.faults)
            ) from None
    return ours


def check_one_input(*paths: str | None) -> None:
    """Raise UsageError if more than one path is standard input, which can be read only once."""
    if paths.count("-") > 1:
        raise click.UsageError("standard input can be read once; give a file for all but one")


_FORMATS: Final = ("ignition", "machineconfig", "butane")
_IDS: Final = ("url", "cluster_id", "infra_env_id", "host_id")
_POOL_ROLES: Final = ("master", "worker")


@dataclass(frozen=True, slots=True)
class _ConfigForm:
    """The output format of the config."""

    name: str
    role: str
    variant: str
    is_patch: bool

    @property
    def is_object(self) -> bool:
        return self.name == "machineconfig" or (self.name == "butane" and self.variant == "openshift")


@click.command("ignition")
@click.option("--role", type=click.Choice(ROLES), required=True, help="The role of the host.")
@click.option("--url", metavar="URL", help="The assisted-service that the reporter reports to.")
@click.option("--cluster-id", metavar="UUID", help="The id of the host's cluster.")
@click.option("--infra-env-id", metavar="UUID", help="The id of the host's infra-env.")
@click.option("--host-id", metavar="UUID", help="The id of the host.")
@click.option("--token-file", metavar="FILE", help="The reporter's token; - for standard input.")
@delivery_options
@click.option("--merge", "base", metavar="BASE.ign", help="Add to this config; - for standard input.")
@click.option(
    "--replace",
    "replacing",
    metavar="PATH",
    multiple=True,
    help="Replace this file of BASE.ign with ours.",
)
@click.option(
    "--spec",
    type=click.Choice(VERSIONS),
    help=f"Version. [default: {DEFAULT}; {DEFAULT_FOR_ASSISTED_SERVICE} with --assisted-host-patch]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default=_FORMATS[0],
    show_default=True,
    help="Form of the result.",
)
@click.option(
    "--variant",
    type=click.Choice(list(VARIANTS)),
    default="fcos",
    show_default=True,
    help="Variant of Butane.",
)
@click.option(
    "--assisted-host-patch", "is_patch", is_flag=True, help="The body of assisted-service's PATCH …/ignition."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write to this file, with mode 0600.",
)
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
    """Make an Ignition config with the shim and the boot reporter.

    It contains the shim and the exit helper. With --url and the ids, --ship-to or --settings, it also
    contains the boot reporter. A bootstrap host records arrays, and systemd closes the records of OpenShift's
    services.

    \b
    Examples:
      service-record ignition --role worker -o worker.ign
      service-record ignition --role bootstrap --merge bootstrap.ign \\
        --replace /usr/local/bin/bootstrap-service-record.sh -o recorded.ign
      service-record ignition --role master --format machineconfig
    """
    wanted_form = _ConfigForm(form, role, variant, is_patch)
    _check_options(wanted_form, base, replacing, options)
    spec = _choose_version(spec, is_patch=is_patch)
    files = (options[name] for name in ("token_file", "settings", "ca_bundle", "executable"))
    check_one_input(base, *files, *options["added"])
    values: dict[str, object] = {f"assisted_service.{name}": options[name] for name in _IDS if options[name]}
    request, program = read_request(role, options, values, is_object=wanted_form.is_object)
    try:
        ours = merge_inputs(make(items_to_deliver(request), spec, program.remote), options["added"])
        require_valid(ours)
        config = ours if base is None else _merge_base(base, ours, replacing)
        text = _encode(config, wanted_form)
    except BadConfigError as error:
        where = f"{_input_name(base)}: " if base is not None else ""
        raise Unreadable(f"{where}{visible(str(error))}") from None
    _write_output(text, output)
    if request.settings is not None and not program.is_given:
        click.echo(f"Note: no --executable; the reporter's units wait until {PROGRAM} is there.", err=True)


def _check_options(
    form: _ConfigForm, base: str | None, replacing: tuple[str, ...], options: dict[str, Any]
) -> None:
    """Raise UsageError for options that exclude each other."""
    if replacing and base is None:
        raise click.UsageError("--replace needs --merge, the config whose files it replaces; give both")
    if form.is_patch and form.name != "ignition":
        raise click.UsageError("--assisted-host-patch is an Ignition config; leave --format out")
    if form.name == "butane" and (base is not None or options["added"]):
        raise click.UsageError("a Butane config of ours is merged by Butane: ignition.config.merge, local")
    if form.is_object:
        _check_object(form, options)
    reports = any(options[name] for name in (*_IDS, "ship_to", "settings"))
    alone = [name for name in ("token_file", "ca_bundle", "executable") if options[name]]
    if alone and not reports:
        option = f"--{alone[0].replace('_', '-')}"
        raise click.UsageError(f"{option} is the reporter's; say where it reports to, as --url or --ship-to")


def _choose_version(version: str | None, *, is_patch: bool) -> str:
    """Return the version of the config. Raises UsageError if an assisted-service does not accept it."""
    if is_patch and version not in {None, *TAKEN_BY_ASSISTED_SERVICE}:
        versions = " and ".join(TAKEN_BY_ASSISTED_SERVICE)
        raise click.UsageError(f"an assisted-service takes {versions} only; leave --spec out")
    return version or (DEFAULT_FOR_ASSISTED_SERVICE if is_patch else DEFAULT)


def _check_object(form: _ConfigForm, options: dict[str, Any]) -> None:
    """Raise UsageError for parts that a MachineConfig must not have: many hosts and people can read it."""
    if form.role not in POOLS:
        raise click.UsageError("the bootstrap host takes no MachineConfig; make an Ignition config for it")
    if options["token_file"]:
        raise click.UsageError(
            "a MachineConfig must not hold a token: everybody who can read it would have it; "
            "use --assisted-host-patch"
        )
    if options["executable"]:
        raise click.UsageError(
            "a MachineConfig is too small for the executable, and nothing is fetched by it"
        )
    if options["host_id"] and form.role in _POOL_ROLES:
        raise click.UsageError(f"a MachineConfig is for all hosts of {form.role}; leave --host-id out")


def _merge_base(base: str, ours: Config, replacing: Iterable[str]) -> Config:
    """Merge our config into the file `base`, and print warnings about that file."""
    data = read_file(base)
    theirs = read_config(data)
    require_valid(theirs)
    for warning in reading.validate(data):
        click.echo(f"Warning: {_input_name(base)}: {visible(warning)}", err=True)
    return merge(theirs, ours, replacing)


def _encode(config: Config, form: _ConfigForm) -> str:
    """Return a config as text in the output format. Raises BadConfigError if invalid or too large."""
    reading.validate(json.dumps(config).encode())
    if form.name == "butane":
        text = format_yaml(make_butane(config, form.role, form.variant))
        reading.validate_butane(text.encode())
        return text
    if form.name == "machineconfig":
        text = format_yaml(other_forms.make_machine_config(config, form.role))
        if len(text) > other_forms.MAX_MACHINE_CONFIG_BYTES:
            what = (
                f"{len(text):,} bytes; a MachineConfig has room for {other_forms.MAX_MACHINE_CONFIG_BYTES:,}"
            )
            raise BadConfigError((ConfigFault("", what),))
        return text
    text = json.dumps(config, ensure_ascii=False, separators=(",", ":"))
    if form.is_patch:
        require_assisted_service_version(config)
        text = json.dumps({"config": text}, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n"


def _write_output(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(text.encode())
        return
    place = output.resolve()
    if place.exists() and not place.is_file():
        raise click.UsageError(
            f"{visible(str(output))} is not a file that can be replaced; name another place"
        )
    if not place.parent.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(output.parent))
    write_whole(place, text.encode())
