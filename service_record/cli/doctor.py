"""`service-record doctor`: whether the recorder is armed on this host, with the mend of each fault."""

import os
from pathlib import Path

import click

from service_record.cli import FAILED
from service_record.cli.delivering import root_option
from service_record.cli.terminal import escape_what_cannot_be_encoded
from service_record.deploy.health import examine
from service_record.deploy.root import Root
from service_record.display.machine import as_json
from service_record.preflight.checks import as_document, as_line, as_summary, is_failed
from service_record.record.visible import visible


@click.command("doctor")
@root_option
@click.option(
    "--output", "-o", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
def command(root: Path, *, form: str) -> None:
    """Check the recorder's set-up on this host, and say what to mend.

    A line each for the installed files, the drop-ins of systemd, the records directory, the inbox, the
    journal, the boot reporter, each server that records go to, and the clock. What nobody has asked for
    is "not checked", and no failure. Nothing is changed. Root sees the most.

    \b
    Examples:
      service-record doctor                 this host
      service-record doctor --root /mnt     a host that is mounted
      service-record doctor -o json
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    escape_what_cannot_be_encoded()
    results = list(examine(Root(root), os.environ))
    if form == "json":
        click.echo(as_json(as_document(results)), nl=False)
    else:
        for result in results:
            click.echo(visible(as_line(result)))
        click.echo(as_summary(results))
    if is_failed(results):
        raise click.exceptions.Exit(FAILED)
