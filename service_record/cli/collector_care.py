"""The maintenance commands `service-record collector audit`, `backup`, `restore`, `prune` and `token`.

This module also has the options and helpers that all `service-record collector` commands share.
"""

import os
import pwd
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from service_record.cli import FAILED, Unreadable
from service_record.cli.options import EXISTING_FILE, FILE_PATH, SIZE, Number, all_options, output_option
from service_record.cli.shared_answers import RowsAnswer
from service_record.cli.terminal import OutputForm, display_options, emit, write_new
from service_record.record.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import DataclassInstance
    from sqlalchemy import Connection

    from service_record.collector.domain.retention import ForgetPlan
    from service_record.collector.store.database import Database


FOLDER = click.Path(path_type=Path, file_okay=False)
data_option = click.option(
    "--data",
    type=FOLDER,
    default=Path("/var/lib/service-record/collector"),
    show_default=True,
    help="The folder with the collector's data.",
)
database_option = click.option(
    "--database",
    metavar="URL",
    default="",
    envvar="SERVICE_RECORD_DATABASE",
    help="postgresql://... [default: SQLite in the folder]",
)
objects_option = click.option(
    "--objects", metavar="URL", default="", help="s3://bucket/prefix for bundles. [default: a folder]"
)
keep_options = all_options(
    click.option(
        "--keep-days",
        type=Number(0, 1e6),
        default=0,
        help="Delete builds that are older than this. [default: never]",
    ),
    click.option(
        "--keep-bytes",
        type=SIZE,
        default=0,
        metavar="SIZE",
        help="Delete the oldest builds beyond this size, e.g. 20G. [default: no limit]",
    ),
)


@contextmanager
def open_database(data: Path, database: str, *, may_make: bool = False) -> Iterator["Database"]:
    """Yield the database of a collector, which may be serving at the same time.

    Raises Unreadable if there is no database, unless `may_make` is True, or if it cannot be opened.
    """
    from service_record.collector.store.database import (  # in an extra
        FILE,
        Database,
        DatabaseError,
        sqlite_url,
    )

    if may_make:
        make_folder(data)
    elif not database and not (data / FILE).exists():
        raise Unreadable(f"{data / FILE}: no collector keeps anything here; name its --data")
    try:
        with closing(Database(database or sqlite_url(data))) as base:
            base.migrate()
            yield base
    except DatabaseError as error:
        raise Unreadable(str(error)) from None


def make_folder(data: Path) -> None:
    """Create the folder of a collector unless it exists. Raises Unreadable if that is not permitted."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except PermissionError as error:
        raise Unreadable(
            f"{data}: {error.strerror}; try as root, or name another folder with --data"
        ) from None


def actor() -> str:
    """Return the user of the command line as the audit log names it."""
    try:
        return f"cli ({pwd.getpwuid(os.getuid()).pw_name})"
    except KeyError:
        return f"cli ({os.getuid()})"


_TIMES = ("at", "created_at", "expires_at", "revoked_at", "used_at")
"""The columns that are seconds since 1970."""


def _emit_rows(title: str, kind: "type[DataclassInstance]", found: Iterable[Any], form: OutputForm) -> None:
    """Write dataclass instances of this kind as rows. People see times in RFC 3339, UTC."""
    columns = [field.name for field in fields(kind)]
    rows = [astuple(one) for one in found]
    cells = [
        [_format_time(value) if name in _TIMES else value for name, value in zip(columns, row, strict=True)]
        for row in rows
    ]
    emit(RowsAnswer(title, columns, rows, cells), form)


def _format_time(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


_T = TypeVar("_T")


@click.command("audit")
@data_option
@database_option
@output_option(about="table, wide: a line for each change")
@display_options
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="Maximum number of lines.",
)
def audit_command(*, data: Path, database: str, form: OutputForm, limit: int) -> None:
    """Show who administered what, latest first."""
    from service_record.collector.store import administration  # in an extra

    with open_database(data, database) as collector, collector.reading() as connection:
        noted = list(administration.list_audit(connection, limit))
    _emit_rows("Audit log", administration.AuditEntry, noted, form)


@click.command("backup")
@data_option
@click.argument("file", type=FILE_PATH)
def backup_command(*, data: Path, file: Path) -> None:
    """Copy the database and the bundles of a collector, which may be serving, into a new tar FILE.

    Only its owner can read the file, because it has the logs of all hosts. For PostgreSQL use pg_dump, and
    for an object store its own tools.
    """
    from service_record.collector.backup import BackupError, back_up

    try:
        report = back_up(data, file)
    except BackupError as error:
        raise Unreadable(str(error)) from None
    click.echo(f"{file}: {report.size} bytes, {report.objects} bundles", err=True)


@click.command("restore")
@data_option
@click.argument("file", type=EXISTING_FILE)
def restore_command(*, data: Path, file: Path) -> None:
    """Make the folder of a collector from a backup FILE. An existing collector is not overwritten."""
    from service_record.collector.backup import BackupError, restore
    from service_record.collector.store import administration

    try:
        report = restore(file, data)
    except BackupError as error:
        raise Unreadable(str(error)) from None
    with open_database(data, "") as collector, collector.changing() as connection:
        administration.note(connection, actor(), "restore", file.name, time.time())
    click.echo(f"{data}: {report.objects} bundles", err=True)


@click.command("prune")
@data_option
@database_option
@objects_option
@keep_options
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
def prune_command(
    *, data: Path, database: str, objects: str, keep_days: float, keep_bytes: int, dry_run: bool
) -> None:
    """Delete old builds with their steps and bundles. The collector may be serving.

    The latest build of each host is kept, and its first and its last failure.
    """
    from service_record.collector.ingest import housekeeping
    from service_record.collector.serving_settings import CollectorSettings
    from service_record.collector.store.objects import ObjectError
    from service_record.collector.store.objects import objects as objects_of

    limits = housekeeping.KeepLimits(days=keep_days, size=keep_bytes)
    if not limits.are_any:
        raise click.UsageError("no limit is given; add --keep-days, --keep-bytes or both")
    now = time.time()
    with open_database(data, database) as collector:
        with collector.reading() as connection:
            plan = housekeeping.planned(connection, limits, now)
        if dry_run:
            _print_plan("would forget", plan)
            return

        def change(do: "Callable[[Connection], _T]", /) -> _T:
            with collector.changing() as connection:
                return do(connection)

        try:
            stored = objects_of(CollectorSettings(data=data, objects=objects))
            housekeeping.carry_out(plan, change, stored, actor(), now)
            stored.delete(housekeeping.orphans(collector, stored, now))
        except ObjectError as error:
            raise Unreadable(str(error)) from None
    _print_plan("forgot", plan)


def _print_plan(verb: str, plan: "ForgetPlan") -> None:
    steps = sum(build.steps for build in plan.builds)
    bundles = sum(build.bundles for build in plan.builds)
    click.echo(f"{verb} {len(plan.builds)} builds, {steps} steps, {bundles} bundles: about {plan.size} bytes")


_KINDS = ("host", "group", "reader", "admin", "enrolment", "boot", "cloud-init")


@click.group("token")
def token() -> None:
    """Make, list and revoke the tokens of hosts and people."""


@token.command("create")
@data_option
@database_option
@click.argument("kind", metavar="KIND", type=click.Choice(_KINDS))
@click.argument("scope", default="")
@click.option("--name", default="", help="Label for this token.")
@click.option(
    "--expires",
    default="",
    metavar="DURATION",
    help="Time after which the token expires, e.g. 30d, or never. [default: never; 7d for "
    "enrolment, boot and cloud-init]",
)
@click.option(
    "-o",
    "--output",
    "file",
    type=FILE_PATH,
    help="Write the token to this new file with mode 0600, and not to standard output.",
)
def create_command(
    *, data: Path, database: str, kind: str, scope: str, name: str, expires: str, file: Path | None
) -> None:
    """Make a token and print it once.

    KIND is host (may write for the host SCOPE), group (for the hosts of the group SCOPE and of the groups
    below it), reader (may read everything, or the group SCOPE), admin, enrolment (gets one host token, once;
    SCOPE may be host:NAME or group:NAME), boot (may only report that the host SCOPE downloaded its image; it
    is part of the URL that an iPXE script fetches), or cloud-init (may report the progress of cloud-init on
    the host SCOPE; it is part of the URL of its webhook).

    \b
    Examples:
      service-record collector token create admin --name me --output ~/admin-token
      service-record collector token create group dc1/rack2 --expires 30d
      service-record collector token create enrolment group:dc1
      service-record collector token create boot web1
    """
    from service_record.collector.domain.access import TokenKind, parse_expiry, parse_scope  # in an extra
    from service_record.collector.store import administration, tokens

    now = time.time()
    try:
        scope, ends = parse_scope(TokenKind(kind), scope), parse_expiry(TokenKind(kind), expires, now)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if file is not None and os.path.lexists(file):
        raise click.UsageError(f"{visible(str(file))} exists, and nothing is overwritten; name another place")
    new = tokens.TokenRequest(
        kind=TokenKind(kind), scope=scope, name=name, created_by=actor(), expires_at=ends
    )
    with open_database(data, database, may_make=True) as collector, collector.changing() as connection:
        _, plain_token = administration.create_token(connection, new, now)
        if file is not None:  # before the commit: if the file cannot be written, no token is made
            write_new(file, [f"{plain_token}\n".encode()], 0o600)
    if file is None:
        click.echo(plain_token)
        click.echo("It is shown this once. Keep it in a file of mode 0600: --output makes one.", err=True)


@token.command("list")
@data_option
@database_option
@output_option(about="table, wide: a line for each token")
@display_options
def list_command(*, data: Path, database: str, form: OutputForm) -> None:
    """List all tokens, oldest first, without their secrets."""
    from service_record.collector.store import tokens

    with open_database(data, database) as collector, collector.reading() as connection:
        shown = list(tokens.list_tokens(connection))
    _emit_rows("Tokens", tokens.TokenShown, shown, form)


@token.command("revoke")
@data_option
@database_option
@click.argument("number", type=click.IntRange(1, 2**63 - 1), metavar="ID")
def revoke_command(*, data: Path, database: str, number: int) -> None:
    """Revoke a token. All servers refuse it within three seconds."""
    from service_record.collector.store import administration

    with open_database(data, database) as collector, collector.changing() as connection:
        revoked = administration.revoke_token(connection, number, actor(), time.time())
    if not revoked:
        click.echo(f"Error: no valid token {number}; see `service-record collector token list`", err=True)
        raise click.exceptions.Exit(FAILED)
