"""`service-record doctor`: check the recorder's set-up on this host, and say how to repair each fault."""

import os
from pathlib import Path

import click

from service_record.cli import FAILED
from service_record.cli.install import root_option
from service_record.cli.options import output_option
from service_record.cli.shared_answers import ChecksAnswer
from service_record.cli.terminal import OutputForm, display_options, emit
from service_record.deploy.health import examine
from service_record.deploy.root import Root
from service_record.preflight.checks import is_failed


@click.command("doctor")
@root_option
@output_option(about="table, wide: a line for each check, wrapped or not")
@display_options
def command(root: Path, *, form: OutputForm) -> None:
    """Check the recorder's set-up on this host, and say what to mend.

    A line each for the installed files, the drop-ins of systemd, the records directory, the inbox, the
    journal, the boot reporter, each server that records go to, and the clock. What nobody has asked for
    is "not checked", and no failure. Nothing is changed. Root sees the most.

    \b
    Examples:
      service-record doctor                 this host
      service-record doctor --root /mnt     a host that is mounted
      service-record doctor -o json
    """
    results = list(examine(Root(root), os.environ))
    emit(ChecksAnswer("Recorder's set-up", results), form)
    if is_failed(results):
        raise click.exceptions.Exit(FAILED)
