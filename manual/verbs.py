"""Section 1 of the manual: a page for the program and one for each verb, of what `--help` says."""

import inspect
from collections.abc import Iterable, Iterator

import click

from manual import roff
from manual.markdown import section
from service_record.cli import VERBS, main
from service_record.version import __version__

PROGRAM = "service-record"
_EXAMPLES = "Examples:"


def pages(date: str, cli_document: str) -> Iterator[tuple[str, str]]:
    """Name and text of each page; the exit codes are those of docs/cli.md, which is given."""
    context = main.make_context(PROGRAM, [], resilient_parsing=True)
    exit_codes = [".SH EXIT STATUS", *section(cli_document, "Exit codes")]
    yield PROGRAM, _page(context, date, [*_verbs(), *exit_codes], VERBS)
    for verb in VERBS:
        command = main.get_command(context, verb)
        assert command is not None, verb
        inner = command.make_context(verb, [], parent=context, resilient_parsing=True)
        yield f"{PROGRAM}-{verb}", _page(inner, date, [], [])


def _page(context: click.Context, date: str, more: Iterable[str], verbs: Iterable[str]) -> str:
    name = context.command_path.replace(" ", "-")
    summary, *paragraphs = inspect.cleandoc(context.command.help or "").split("\n\n")
    usage = " ".join(context.command.collect_usage_pieces(context))
    lines = [
        ".SH NAME",
        f"{roff.escaped(name)} \\- {roff.escaped(summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f"{roff.bold(context.command_path)} {roff.escaped(usage)}",
        ".SH DESCRIPTION",
        roff.line(roff.escaped(summary)),
        *(row for paragraph in paragraphs for row in _paragraph(paragraph)),
        ".SH OPTIONS",
        *_options(context),
        *more,
        *_environment(),
        ".SH SEE ALSO",
        *_see_also(verbs),
    ]
    return roff.page(name, 1, date, f"{PROGRAM} {__version__}", lines)


def _paragraph(text: str) -> Iterator[str]:
    """A paragraph of help; one behind a backspace stays as it is, and may be the examples."""
    first, _, rest = text.partition("\n")
    if first != "\b":
        yield from (".PP", roff.line(roff.escaped(" ".join(text.split()))))
        return
    heading, _, examples = rest.partition("\n")
    if heading == _EXAMPLES:
        yield ".SH EXAMPLES"
        yield from roff.verbatim(inspect.cleandoc(examples))
    else:
        yield from roff.verbatim(inspect.cleandoc(rest))


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            names, told = record
            yield from (".TP", roff.bold(names), roff.line(roff.escaped(" ".join(told.split()))))


def _verbs() -> Iterator[str]:
    yield ".SH COMMANDS"
    for verb, summary in VERBS.items():
        page = f"{roff.bold(f'{PROGRAM}-{verb}')}(1)"
        yield from (".TP", roff.bold(verb), f"{roff.escaped(summary)} See {page}.")


def _environment() -> list[str]:
    directory = "The directory of the records. By default /var/log/openshift."
    return [".SH ENVIRONMENT", ".TP", roff.bold("SERVICE_RECORDS_DIR"), roff.escaped(directory)]


def _see_also(verbs: Iterable[str]) -> Iterator[str]:
    """The pages of these verbs, or else the one of the program; and the format in any case."""
    names = [f"{PROGRAM}-{verb}" for verb in verbs] or [PROGRAM]
    yield ",\n".join([*(f"{roff.bold(name)}(1)" for name in names), f"{roff.bold(PROGRAM)}(5)"])
