"""Man pages and shell completions, made of what the command line and its documents say already.

Section 1 has a page for the program and one for each verb, of what `--help` says. `hatch_build.py` puts them
into the wheel, `packages.stage` into packages; `service-record install` delivers them as files.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from packages.manual import roff
from packages.manual.roff import section
from service_record.version import __version__

PROGRAM = "service-record"
_EXAMPLES = "Examples:"


def verb_pages(program: click.Group, output_document: str) -> Iterator[tuple[str, str]]:
    """Name and text of each page; the exit codes are those of docs/output.md, which is given."""
    context = program.make_context(PROGRAM, [], resilient_parsing=True)
    commands = {verb: program.get_command(context, verb) for verb in program.list_commands(context)}
    verbs = {verb: command for verb, command in commands.items() if command is not None}
    exit_codes = [".SH EXIT STATUS", *section(output_document, "Exit codes")]
    yield PROGRAM, _page(context, [*_verbs(verbs), *exit_codes], verbs)
    for verb, command in verbs.items():
        inner = command.make_context(verb, [], parent=context, resilient_parsing=True)
        yield f"{PROGRAM}-{verb}", _page(inner, [], [])


def _paragraphs(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help; the first is a summary in one sentence."""
    return inspect.cleandoc(command.help or "").split("\n\n")


def _page(context: click.Context, more: Iterable[str], verbs: Iterable[str]) -> str:
    name = context.command_path.replace(" ", "-")
    summary, *paragraphs = _paragraphs(context.command)
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
    return roff.page(name, 1, f"{PROGRAM} {__version__}", lines)


def _paragraph(text: str) -> Iterator[str]:
    """Yield a paragraph of help; one behind a backspace stays as it is, and may be the examples."""
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
            names, explanation = record
            yield from (".TP", roff.bold(names), roff.line(roff.escaped(" ".join(explanation.split()))))


def _verbs(verbs: Mapping[str, click.Command]) -> Iterator[str]:
    yield ".SH COMMANDS"
    for verb, command in verbs.items():
        summary = " ".join(_paragraphs(command)[0].split())
        page = f"{roff.bold(f'{PROGRAM}-{verb}')}(1)"
        yield from (".TP", roff.bold(verb), f"{roff.escaped(summary)} See {page}.")


def _environment() -> list[str]:
    directory = "The directory of the records. By default /var/log/openshift."
    return [".SH ENVIRONMENT", ".TP", roff.bold("SERVICE_RECORDS_DIR"), roff.escaped(directory)]


def _see_also(verbs: Iterable[str]) -> Iterator[str]:
    """Yield the pages of these verbs, or else the one of the program; and the format in any case."""
    names = [f"{PROGRAM}-{verb}" for verb in verbs] or [PROGRAM]
    yield ",\n".join([*(f"{roff.bold(name)}(1)" for name in names), f"{roff.bold(PROGRAM)}(5)"])


COMPLETIONS: Final = {
    "bash": "bash-completion/completions/service-record",
    "zsh": "zsh/site-functions/_service-record",
    "fish": "fish/vendor_completions.d/service-record.fish",
}
"""Places below PREFIX/share in which each shell, or its package of completions, looks."""

_DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_DOCUMENTS: Final = (
    (("record-format.md", "record-layouts.md"), PROGRAM, 5),
    (
        ("shell.md", "shell-lines.md", "shell-ends.md", "shell-guarantees.md"),
        "bootstrap-service-record.sh",
        1,
    ),
    (("shell-ends.md",), "service-record-exit.sh", 1),
)
"""Man pages made from documents: the documents, and the name and section of the man page."""


def pages(command: click.Group) -> Iterator[tuple[str, str]]:
    """Path below PREFIX/share, and text. Raises FileNotFoundError where a document is missing."""
    for name, page in verb_pages(command, _document("output.md")):
        yield f"man/man1/{name}.1", page
    version = f"{PROGRAM} {__version__}"
    for documents, name, number in _DOCUMENTS:
        page = roff.page_of_markdown("\n".join(map(_document, documents)), name, number, version)
        yield f"man/man{number}/{name}.{number}", page
    for shell, path in COMPLETIONS.items():
        completion = get_completion_class(shell)
        if completion is None:
            raise LookupError(f"click completes nothing in {shell}")
        yield path, completion(command, {}, PROGRAM, "_SERVICE_RECORD_COMPLETE").source()


def _document(name: str) -> str:
    return (_DOCS / name).read_text(encoding="utf-8")
