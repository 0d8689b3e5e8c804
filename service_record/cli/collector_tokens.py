"""`service-record collector token`: make, list and revoke what hosts and people present."""

import os
import time
from dataclasses import asdict
from pathlib import Path

import click

from service_record.cli import FAILED
from service_record.cli.collector_options import (
    actor,
    data_option,
    database_option,
    opened,
    output_option,
    say,
)
from service_record.display.text import visible

_KINDS = ("host", "group", "reader", "admin", "enrolment", "boot")
_TIMES = ("created_at", "expires_at", "revoked_at", "used_at")


@click.group("token")
def token() -> None:
    """Make, list and revoke the tokens that hosts and people present."""


@token.command("create")
@data_option
@database_option
@click.argument("kind", type=click.Choice(_KINDS))
@click.argument("scope", default="")
@click.option("--name", default="", help="What it is for, for people.")
@click.option(
    "--expires",
    default="",
    metavar="DURATION",
    help="After which it ends, as 30d, or never. [default: never; 7d for enrolment and boot]",
)
@click.option(
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A new file for it, of mode 0600, instead of stdout.",
)
def create_command(
    *, data: Path, database: str, kind: str, scope: str, name: str, expires: str, file: Path | None
) -> None:
    """Make a token and print it, this once.

    KIND is host (writes for the host SCOPE), group (for the hosts of the group SCOPE and of those below it),
    reader (of everything, or of the group SCOPE), admin, enrolment (gets one token of a host, once; SCOPE
    may be host:NAME or group:NAME), or boot (reports that the host SCOPE downloaded its image, and nothing
    else: it stands in the address that an iPXE script fetches).

    \b
    Examples:
      service-record collector token create admin --name me --output ~/.config/service-record/collector-token
      service-record collector token create group dc1/rack2 --name "kickstart of rack 2" --expires 30d
      service-record collector token create enrolment group:dc1
      service-record collector token create boot web1
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    from service_record.collector.access import Kind, expiry_of, scope_of  # noqa: PLC0415  # of the extra
    from service_record.collector.store import administration, tokens  # noqa: PLC0415

    now = time.time()
    try:
        scope, ends = scope_of(Kind(kind), scope), expiry_of(Kind(kind), expires, now)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if file is not None and os.path.lexists(file):
        raise click.UsageError(f"{visible(str(file))} exists, and nothing is overwritten; name another place")
    new = tokens.NewToken(kind=Kind(kind), scope=scope, name=name, created_by=actor(), expires_at=ends)
    with opened(data, database, may_make=True) as collector, collector.changing() as connection:
        _, made = administration.create_token(connection, new, now)
        if file is not None:  # before it is committed: a token that nobody holds is none
            _write(file, made)
    if file is None:
        click.echo(made)
        click.echo("It is shown this once. Keep it in a file of mode 0600: --output makes one.", err=True)


@token.command("list")
@data_option
@database_option
@output_option
def list_command(*, data: Path, database: str, output: str) -> None:
    """List all tokens, oldest first, without their secrets."""
    from service_record.collector.store import tokens  # noqa: PLC0415

    with opened(data, database) as collector, collector.reading() as connection:
        rows = [asdict(shown) for shown in tokens.listed(connection)]
    say(rows, output, _TIMES)


@token.command("revoke")
@data_option
@database_option
@click.argument("number", type=click.IntRange(1, 2**63 - 1), metavar="ID")
def revoke_command(*, data: Path, database: str, number: int) -> None:
    """Make a token worthless, within three seconds for all that serve."""
    from service_record.collector.store import administration  # noqa: PLC0415

    with opened(data, database) as collector, collector.changing() as connection:
        revoked = administration.revoke_token(connection, number, actor(), time.time())
    if not revoked:
        click.echo(f"Error: no token {number} that is worth anything; see token list", err=True)
        raise click.exceptions.Exit(FAILED)


def _write(file: Path, made: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(f"{made}\n")
