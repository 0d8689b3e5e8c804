"""`service-record hosts`: show the hosts of a collector."""

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click
import msgspec
from click.core import ParameterSource
from msgspec.structs import replace

from service_record.cli import FAILED, Unreadable
from service_record.cli.options import FILE_PATH, output_option
from service_record.cli.terminal import Answer, OutputForm, display_options, emit, paint
from service_record.display.fleet_table import (
    VERDICTS,
    FleetListing,
    change,
    table,
    wide,
)
from service_record.display.text import Ink, Line, View
from service_record.http.address import CollectorError, parse_address
from service_record.http.collector_answers import (
    BuildSummary,
    Clusters,
    ClusterSummary,
    HostDetail,
    Hosts,
    HostSummary,
)
from service_record.http.collector_client import CollectorClient, connect
from service_record.record.visible import visible

_PAGE_HOSTS: Final = 1000
_FOLLOW_SECONDS: Final = 2.0
"""The time between two requests of `--follow`."""
_CLEAR_SCREEN: Final = "\x1b[H\x1b[J"


_MULTIPLE: Final = frozenset({"-m", "--machine", "-g", "--group", "-dc", "--datacenter", "--cluster"})
"""Options that take all values up to the next option."""


class _HostsGroup(click.Group):
    """A click group with options that take several values: `-m A B`. Click supports only `-m A -m B`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_repeat_options(args)))


def _repeat_options(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the arguments with an option of `_MULTIPLE` repeated before each of its values: `-m A -m B`."""
    option, is_first = "", False
    for argument in arguments:
        if argument in _MULTIPLE:
            option, is_first = argument, True
        elif argument.startswith("-"):
            option = ""
        elif option and not is_first:
            yield option
        else:
            is_first = False
        yield argument


def _collector_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `--from` and `--token-file`, with the parameters `place` and `token_file`."""
    token_file = click.option(
        "--token-file",
        type=FILE_PATH,
        help="The file with a reader's token. [default: $SERVICE_RECORD_TOKEN_FILE, a credential, ~/.config]",
    )
    place = click.option(
        "--from",
        "place",
        metavar="URL",
        help="collector://HOST[:PORT][/NAME], collector+http://... or https://.... "
        "[default: $SERVICE_RECORD_COLLECTOR]",
    )
    return place(token_file(function))


@click.group("hosts", cls=_HostsGroup, invoke_without_command=True)
@_collector_options
@click.option(
    "-g",
    "--group",
    "-dc",
    "--datacenter",
    "groups",
    metavar="GROUP...",
    multiple=True,
    help="Only hosts of these groups and of the groups below them.",
)
@click.option(
    "-m",
    "--machine",
    "machines",
    metavar="NAME...",
    multiple=True,
    help="Only hosts with these names; * and ? match any characters.",
)
@click.option(
    "--cluster",
    "clusters",
    metavar="CLUSTER...",
    multiple=True,
    help="Only hosts of these OpenShift clusters, by id or name; also shows the clusters.",
)
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Include hosts that finished more than a day ago, and the builds of the last month.",
)
@click.option("--stuck", is_flag=True, help="Only hosts that are stuck.")
@click.option("--failed", is_flag=True, help="Only hosts that failed; with --stuck, both.")
@click.option(
    "--verdict",
    "verdicts",
    type=click.Choice(VERDICTS),
    multiple=True,
    help="Only hosts with this verdict; repeatable.",
)
@output_option(about="table: a line for each; wide: all that is known of each")
@click.option("-f", "--follow", is_flag=True, help="Keep running, and show changes (table, jsonl).")
@display_options
@click.option("--fail", is_flag=True, help="Exit 1 when a host is failed, looping, stuck or silent.")
@click.pass_context
def command(
    context: click.Context,
    *,
    place: str | None,
    token_file: Path | None,
    groups: tuple[str, ...],
    machines: tuple[str, ...],
    clusters: tuple[str, ...],
    is_all: bool,
    stuck: bool,
    failed: bool,
    verdicts: tuple[str, ...],
    form: OutputForm,
    follow: bool,
    fail: bool,
) -> None:
    """Show the hosts of a collector, those in trouble first.

    \b
    Examples:
      service-record hosts --from collector://collector.example.com
      service-record hosts --group dc1 --stuck --failed
      service-record hosts --cluster prod
      service-record hosts -dc dc1 dc2 -m 'web*' 'db*'
      service-record hosts --machine web1 --all -o json
      service-record hosts --follow
      service-record hosts show web1
    """
    if context.invoked_subcommand is not None:
        # Options before the name of a subcommand would have no effect.
        if ParameterSource.COMMANDLINE in map(context.get_parameter_source, context.params):
            raise click.UsageError("options come after the name: hosts show NAME --from URL")
        return
    if follow and form.output not in {"table", "jsonl"}:
        raise click.UsageError("--follow goes with --output table or jsonl")
    wanted_verdicts = {*verdicts, *(("stuck",) if stuck else ()), *(("failed",) if failed else ())}
    try:
        named = (parse_address(place).host,) if place and parse_address(place).host else ()
        query = _HostFilter(
            groups, (*machines, *named), tuple(sorted(wanted_verdicts)), clusters, is_all=is_all
        )
        with connect(place, token_file=token_file) as client:
            if follow:
                _follow(client, query, form)
            listing = query.fetch(client)
            emit(_HostsOutput(listing), form)
    except CollectorError as error:
        raise Unreadable(visible(str(error))) from None
    if fail and any(host.is_bad for host in listing.answer.hosts):
        raise click.exceptions.Exit(FAILED)


@command.command("show")
@click.argument("name")
@click.option(
    "--build", type=click.IntRange(min=1), metavar="N", help="An earlier build. [default: the latest]"
)
@_collector_options
@output_option(about="table, wide: the steps with the end of their logs")
@display_options
def show_command(
    *, name: str, build: int | None, place: str | None, token_file: Path | None, form: OutputForm
) -> None:
    """Show one host: its verdict, the steps of a build with their logs, and its earlier builds."""
    path = f"/api/v1/hosts/{quote(name, safe='')}" + (f"/builds/{build}" if build else "")
    try:
        with connect(place, token_file=token_file) as client:
            emit(_HostAnswer(client.get(path, HostDetail), client.url), form)
    except CollectorError as error:
        raise Unreadable(visible(str(error))) from None


class _HostAnswer(Answer, frozen=True):
    """The answer about one host. Its document is the collector's JSON."""

    detail: HostDetail
    source: str

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:  # noqa: ARG002  # no line is cut
        from service_record.display.host_detail import host_detail

        at = replace(view, now=datetime.fromtimestamp(self.detail.now, UTC))
        return host_detail(self.detail, self.source, at)

    def page(self, view: View) -> str:
        from service_record.display.html.rendering import SUMMARY_COLUMNS, page, section

        lines = list(self.lines(replace(view, width=SUMMARY_COLUMNS), is_wide=True))
        text = section("host", "Host", "parts.html", "paragraphs", lines=lines)
        return page(f"Host {self.detail.summary.name}", [], [text], view.now, summary=lines)

    def document(self) -> dict[str, object]:
        document: dict[str, object] = msgspec.to_builtins(self.detail)
        return {"version": 1} | document

    def documents(self) -> Iterable[dict[str, object]]:
        """Return the steps."""
        steps: Iterable[dict[str, object]] = msgspec.to_builtins(self.detail.steps)
        return steps


_ORDER: Final = {
    verdict: place
    for place, verdict in enumerate(("failed", "looping", "stuck", "silent", "progressing", "done"))
}
"""The order of hosts in a table: those in trouble first."""


@dataclass(frozen=True, slots=True)
class _HostFilter:
    """The filters that choose hosts."""

    groups: tuple[str, ...]
    machines: tuple[str, ...]
    verdicts: tuple[str, ...]
    clusters: tuple[str, ...]
    is_all: bool

    def fetch(self, client: CollectorClient) -> FleetListing:
        """Return the hosts of all pages and the clusters. Raises CollectorError."""
        hosts: dict[str, HostSummary] = {}
        earlier: dict[str, tuple[BuildSummary, ...]] = {}
        for page in self._pages(client):
            before = len(hosts)
            hosts |= {host.name: host for host in page.hosts}
            earlier |= page.earlier
            if len(hosts) == before:  # nothing new: a faulty collector must not keep us here for ever
                break
        ordered = sorted(hosts.values(), key=lambda host: (_ORDER.get(host.verdict, len(_ORDER)), host.name))
        answer = replace(page, hosts=tuple(ordered), earlier=earlier)
        return FleetListing(answer, client.url, self._clusters(client))

    def _clusters(self, client: CollectorClient) -> tuple[ClusterSummary, ...]:
        """Return the requested clusters, or all of them if no filter is set. Raises CollectorError."""
        if not self.clusters and (self.groups or self.machines or self.verdicts):
            return ()
        is_all = "true" if self.is_all else None
        return client.get("/api/v1/clusters", Clusters, cluster=self.clusters, all=is_all).clusters

    def _pages(self, client: CollectorClient) -> Iterator[Hosts]:
        after = ""
        while True:
            page = client.get(
                "/api/v1/hosts",
                Hosts,
                group=self.groups,
                machine=self.machines,
                verdict=self.verdicts,
                cluster=self.clusters,
                all="true" if self.is_all else None,
                earlier="true" if self.is_all else None,
                sort="name",  # a changed verdict must not move a host to a page that was read already
                limit=_PAGE_HOSTS,
                after=after or None,
            )
            yield page
            after = page.next
            if not after:
                return


class _HostsOutput(Answer, frozen=True):
    listing: FleetListing

    def lines(self, view: View, *, is_wide: bool) -> Iterable[Line]:
        return (wide if is_wide else table)(self.listing, self._at_answer(view))

    def page(self, view: View) -> str:
        from service_record.display.fleet_document import hosts_html

        return hosts_html(self.listing, self._at_answer(view))

    def document(self) -> object:
        from service_record.display.fleet_document import hosts_document

        return hosts_document(self.listing)

    def documents(self) -> Iterable[object]:
        from service_record.display.fleet_document import host_lines

        return host_lines(self.listing.answer)

    def _at_answer(self, view: View) -> View:
        """Return the view with the collector's time, because the clock of this host may be wrong."""
        return replace(view, now=datetime.fromtimestamp(self.listing.answer.now, UTC))


def _follow(client: CollectorClient, query: _HostFilter, form: OutputForm) -> None:
    """Show changes until the user interrupts the program. A collector that does not answer is tried again."""
    revisions: dict[str, int] = {}
    is_screen = form.output == "table" and sys.stdout.isatty()
    while True:
        try:
            listing = query.fetch(client)
        except CollectorError as error:
            if error.status is not None and error.status < 500:  # noqa: PLR2004  # a refusal: trying again is useless
                raise
            click.echo(f"Waiting: {visible(str(error))}", err=True)
            time.sleep(_FOLLOW_SECONDS)
            continue
        answer = listing.answer
        changed = [host for host in answer.hosts if revisions.get(host.name) != host.revision]
        revisions = {host.name: host.revision for host in answer.hosts}
        at = replace(form.view(), now=datetime.fromtimestamp(answer.now, UTC))
        if form.output == "jsonl":
            from service_record.display.fleet_document import host_document
            from service_record.display.machine import encode_document

            text = "".join(f"{encode_document(host_document(host, answer.now))}\n" for host in changed)
            sys.stdout.buffer.write(text.encode())
        elif is_screen:
            lines = [*table(listing, at)]
            room = shutil.get_terminal_size().lines - 1
            if len(lines) > room:  # hosts in trouble are at the top, so they stay
                more = f"{len(lines) - room + 1} more lines; --group, --stuck and --failed leave some out"
                lines[room - 1 :] = [((more, Ink.FAINT),)]
            sys.stdout.write(_CLEAR_SCREEN + "".join(paint(lines, form.color)))
        else:
            changes = [change(host, answer.now, at) for host in changed]
            sys.stdout.writelines(paint(changes, form.color))
        sys.stdout.flush()
        time.sleep(_FOLLOW_SECONDS)
