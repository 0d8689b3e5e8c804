"""What `ignition` is given: files, each once from standard input, and settings that are put to the test."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import click

from service_record.deploy.for_ignition import CA_BUNDLE, PROGRAM, Wanted
from service_record.deploy.ignition import urls
from service_record.deploy.ignition.checking import insist
from service_record.deploy.ignition.fault import BadConfigError, Fault
from service_record.deploy.ignition.making import Remote
from service_record.deploy.ignition.merging import merge
from service_record.deploy.ignition.reading import Config, read_config
from service_record.deploy.reporter_settings import settings_text
from service_record.display.text import visible
from service_record.reporter.places import Places
from service_record.reporter.settings import read_settings

MOST: Final = 64 << 20
_MOST_TOKEN: Final = 1 << 18
_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BEGINNINGS: Final = (b"\x7fELF", b"#!")
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_FOR_ROOT: Final = 0o600


_DELIVERY: Final = (
    click.option("--ca-bundle", metavar="FILE", help="PEM certificates that the reporter is to trust, too."),
    click.option(
        "--ship-to", metavar="URL", multiple=True, help="One more destination of bundles; repeatable."
    ),
    click.option("--settings", metavar="FILE", help="More settings of the reporter: a reporter.toml."),
    click.option("--executable", metavar="URL|FILE", help="The reporter as one executable file."),
    click.option("--executable-hash", metavar="HASH", help="sha512-… or sha256-… of it; needed with a URL."),
    click.option(
        "--close", "closes", metavar="SERVICE", multiple=True, help="systemd closes its record; repeatable."
    ),
    click.option("--all-services", is_flag=True, help="systemd closes every service's record."),
    click.option(
        "--array", is_flag=True, help="Every service records an array, as OpenShift's tools read it."
    ),
    click.option(
        "--add",
        "added",
        metavar="CONFIG.ign",
        multiple=True,
        help="An Ignition config of yours that goes along; repeatable.",
    ),
)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def delivery_options(function: _Function) -> _Function:
    """Give a command the options of what is delivered to a host, and how."""
    for option in reversed(_DELIVERY):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class Program:
    """The reporter's executable: in the config, or fetched; or neither."""

    data: bytes | None = field(default=None, repr=False)
    remote: tuple[Remote, ...] = ()

    @property
    def is_given(self) -> bool:
        return self.data is not None or bool(self.remote)


def read_file(path: str, most: int = MOST) -> bytes:
    """What is in a file, or in standard input for `-`. Raises OSError; UsageError where it is too long."""
    if path == "-":
        data = sys.stdin.buffer.read(most + 1)
    else:
        with Path(path).open("rb") as file:
            data = file.read(most + 1)
    if len(data) > most:
        raise click.UsageError(f"{visible(path)} has more than {most:,} bytes")
    return data


def read_token_file(path: str | None) -> bytes | None:
    if path is None:
        return None
    token = read_file(path, _MOST_TOKEN)
    if not token.strip():
        raise click.UsageError(f"{_named(path)} is empty; the token belongs into it")
    return token


def read_certificates(path: str | None) -> bytes | None:
    if path is None:
        return None
    data = read_file(path)
    if _CERTIFICATE not in data:
        raise click.UsageError(f"{visible(path)} holds no certificate in PEM form")
    return data


def read_program(place: str | None, hash_text: str | None) -> Program:
    """The executable of a file, which is read, or of a URL, which is not."""
    if place is None:
        if hash_text is not None:
            raise click.UsageError("--executable-hash is of what --executable names; give both")
        return Program()
    if hash_text is not None:
        _insist(lambda: urls.check_hash(hash_text), "--executable-hash")
    if _REMOTE.match(place):
        if hash_text is None:
            raise click.UsageError("what is fetched has to be verified: add --executable-hash sha512-…")
        _insist(lambda: urls.check_url(place), "--executable")
        return Program(remote=(Remote(PROGRAM, place, hash_text.lower()),))
    data = read_file(place)
    if not data.startswith(_BEGINNINGS):
        raise click.UsageError(f"{visible(place)} is no program, neither ELF nor a script")
    if hash_text is not None:
        _insist(lambda: urls.check_verified(data, hash_text), visible(place))
    return Program(data)


def reporter_settings(
    path: str | None, given: Mapping[str, object], token: bytes | None, *, is_given: bool
) -> str | None:
    """The text of reporter.toml, as good as the reporter itself will find it; None where nothing is given.

    Raises UsageError with the reporter's own words where it would find fault with it.
    """
    if path is None and not is_given:
        return None
    try:
        text = settings_text("" if path is None else read_file(path, 1 << 16).decode(), given)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else visible(str(error))
        raise click.UsageError(f"{visible(path or '')}: {why}") from None
    for fault in _faults(text, token, has_bundle=CA_BUNDLE in given.values()):
        raise click.UsageError(fault)
    return text


def _faults(text: str, token: bytes | None, *, has_bundle: bool) -> Iterator[str]:
    """What the reporter says of these settings on a host of its own; that a token is missing is no fault."""
    with TemporaryDirectory() as directory:
        places = Places(Path(directory))
        stand_ins = {places.settings_file: text.encode()}
        if token is not None:
            stand_ins[places.credential_file] = token
        if has_bundle:
            stand_ins[places.at(CA_BUNDLE)] = _CERTIFICATE
        for path, data in stand_ins.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=_FOR_ROOT)
            path.write_bytes(data)
        for fault in read_settings(places, {}).faults:
            told = fault.replace(directory, "")
            if token is not None or ": no token" not in told:
                yield visible(told)


def _named(path: str) -> str:
    return "standard input" if path == "-" else visible(path)


def _insist(check: Callable[[], None], where: str) -> None:
    try:
        check()
    except ValueError as error:
        raise click.UsageError(f"{where}: {error}") from None


def read_wanted(
    role: str, options: Mapping[str, Any], given: dict[str, object], *, is_object: bool = False
) -> tuple[Wanted, Program]:
    """What the options want on a host, whose reporter's settings are given and those of the options.

    `is_object`: it becomes a MachineConfig. Raises UsageError.
    """
    token = read_token_file(options["token_file"])
    bundle = read_certificates(options["ca_bundle"])
    program = read_program(options["executable"], options["executable_hash"])
    if options["ship_to"]:
        given["ship_to"] = list(options["ship_to"])
    is_given = bool(given)
    removed = list(options.get("remove", ()))
    if bundle is not None:
        given["assisted_service.ca_bundle"] = CA_BUNDLE
        removed.append(CA_BUNDLE)
    if program.is_given:
        removed.append(PROGRAM)
    if is_object:
        # The operator calls a host degraded that lacks a file of its MachineConfig.
        given["keep_after"] = ["settings", "units"]
    elif removed:
        given["remove"] = removed
    wanted = Wanted(
        role=role,
        closes=options["closes"],
        all_services=options["all_services"],
        array=options["array"],
        settings=reporter_settings(options["settings"], given, token, is_given=is_given),
        token=token,
        ca_bundle=bundle,
        program=program.data,
    )
    return wanted, program


def with_added(ours: Config, added: Iterable[str]) -> Config:
    """Merge configs of somebody's into ours. Raises BadConfigError, which names the file; OSError."""
    for path in added:
        try:
            theirs = read_config(read_file(path))
            insist(theirs)
            ours = merge(ours, theirs)
        except BadConfigError as error:
            raise BadConfigError(tuple(Fault(_named(path), str(fault)) for fault in error.faults)) from None
    return ours


def check_one_input(*paths: str | None) -> None:
    """UsageError where two of them are standard input, which can be read once."""
    if paths.count("-") > 1:
        raise click.UsageError("standard input can be read once; give a file for all but one")
