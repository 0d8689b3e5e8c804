"""`service-record snippet`: print shell code by which an installer records and reports its steps."""

import re
from dataclasses import replace
from typing import Any

import click

from service_record.deploy.snippets import BOOTED, FIRST_BOOT, KINDS, STEPS, SnippetValues, snippet
from service_record.http.address import HOST_RULE, is_host_name
from service_record.http.proxies import split_url
from service_record.record.visible import visible


@click.command("snippet")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@click.option("--url", default="", metavar="URL", help="The collector. [default: report nothing]")
@click.option(
    "--host",
    default="",
    metavar="NAME",
    help="Name of the host. [default: its hostname during the installation]",
)
@click.option(
    "--token-file",
    default=SnippetValues.__dataclass_fields__["token_file"].default,
    show_default=True,
    metavar="PATH",
    help="File from which the installer reads its token.",
)
@click.option(
    "--token-parameter", default="", metavar="NAME", help="With --erb: the host parameter with the token."
)
@click.option(
    "--ca-file", default="", metavar="PATH", help="PEM certificates that curl trusts instead of its own."
)
@click.option(
    "--log",
    "log_file",
    default="",
    metavar="PATH",
    help="Send the last lines of this log while a step is open. [default: none]",
)
@click.option("--step", "steps", multiple=True, metavar="NAME", help="A step, in order; repeatable.")
@click.option(
    "--max-time",
    "limit",
    type=click.IntRange(1, 120),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a report.",
)
@click.option(
    "--first-boot",
    "has_first_boot",
    is_flag=True,
    help=f"The new system reports {BOOTED!r} after the reboot (kickstart, preseed).",
)
@click.option(
    "--erb", "is_erb", is_flag=True, help="For a Foreman template, which provides host, URL and token."
)
def command(*, kind: str, steps: tuple[str, ...], **options: Any) -> None:
    """Print shell code that reports the steps of an installation.

    KIND is kickstart, preseed, autoinstall, cloud-init, bash, foreman, foreman-webhook or ipxe. The code
    needs nothing but a shell and one of curl, wget and busybox. It never fails the installation, and a
    collector that does not answer delays it by seconds. What belongs between the beginning and the end of a
    step is yours to put there. foreman-webhook is a template by which Foreman itself reports.

    \b
    Examples:
      service-record snippet kickstart --erb --first-boot
      service-record snippet foreman --token-parameter service_record_token
      service-record snippet preseed --url https://c.example --step Disk
      service-record snippet bash --url https://c.example
    """
    values = SnippetValues(service=kind, **options)
    values = replace(values, is_erb=values.is_erb or kind == "foreman")
    texts = {
        "--host": values.host,
        "--token-file": values.token_file,
        "--ca-file": values.ca_file,
        "--log": values.log_file,
        "--url": values.url,
    }
    for option, text in [*texts.items(), *(("--step", step) for step in steps)]:
        _check_text(option, text)
    if values.host and not is_host_name(values.host):
        raise click.UsageError(
            f"--host: {visible(values.host)} would be refused by the collector: {HOST_RULE}"
        )
    if values.url:
        check_url(values.url)
    _check_kind(values, steps)
    _check_parameter(values)
    click.echo(snippet(kind, values, steps or STEPS.get(kind, ())), nl=False)


def _check_parameter(values: SnippetValues) -> None:
    name = values.token_parameter
    if name and not values.is_erb:
        raise click.UsageError(
            "--token-parameter is for ERB only; a token is never in the text itself: use --token-file"
        )
    if name and not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise click.UsageError(
            f"--token-parameter: {visible(name)} is not the name of a parameter; "
            "use letters, digits, _, . and -"
        )


def _check_kind(values: SnippetValues, steps: tuple[str, ...]) -> None:
    kind = values.service
    if values.has_first_boot and kind not in FIRST_BOOT:
        raise click.UsageError(f"--first-boot: only for {' and '.join(FIRST_BOOT)}, not for {kind}")
    if steps and kind not in STEPS:
        raise click.UsageError(f"--step: the snippet of {kind} has no steps of its own; leave --step out")
    if kind == "ipxe" and not (values.url or values.is_erb):
        raise click.UsageError("iPXE has no default for the collector: name it with --url, or use --erb")


def _check_text(option: str, text: str) -> None:
    """Raise UsageError for a control character or a lone surrogate, which would break the template."""
    if not text.isprintable():
        raise click.UsageError(
            f"{option}: {visible(text)} has characters that no template takes; use one line of printable text"
        )


def check_url(url: str) -> None:
    if split_url(url) is None or " " in url:
        raise click.UsageError("--url: not a URL of a collector; use http://HOST or https://HOST")
    if "?" in url or "#" in url or "@" in url:
        raise click.UsageError("--url: remove the query, fragment or password")
