"""Every output of the reading verbs on every example, whatever this host's clock and zone are."""

import contextlib
import gc
import re
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Final

import pytest

from examples.scenes import EXAMPLES, PACKED
from service_record.cli import main

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PLACE: Final = REPOSITORY / "docs" / "examples"
GOLDEN: Final = REPOSITORY / "tests" / "golden"
TABLES: Final = (("docs/examples/README.md", ("show", "analyze")), ("docs/analyze.md", ("analyze",)))
"""Pages with a table of the examples, and the verbs whose first lines it has."""

_VERBS: Final = ("show", "analyze", "timeline")
_FORMS: Final = {"table": ".txt", "wide": "-wide.txt"}
_MORE: Final = {
    "timeline-by-duration.txt": ("timeline", "--by-duration"),
    "timeline-200-columns.txt": ("timeline",),
}
_PAGE: Final = 80
_UNWRAPPED: Final = 400


def sources() -> dict[str, str]:
    """Example -> what to give `--from`: its directory, or its bundle, from the repository."""
    places = {name: PLACE / (f"{name}.tar.gz" if name in PACKED else name) for name in EXAMPLES}
    return {name: str(path.relative_to(REPOSITORY)) for name, path in places.items()}


def golden_files() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Each golden file, and the arguments of what it is the output of."""
    for name, source in sources().items():
        for verb in _VERBS:
            yield from _of_verb(name, verb, "--from", source)
        for file, arguments in _MORE.items():
            yield GOLDEN / name / file, (*arguments, "--from", source)
        yield from _of_verb(name, "diff", sources()["good"], source)


def _of_verb(name: str, verb: str, *arguments: str) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for form in _forms(verb):
        suffix = _FORMS.get(form, f".{form}")
        yield GOLDEN / name / f"{verb}{suffix}", (verb, *arguments, "--output", form)


def said(path: Path, arguments: tuple[str, ...]) -> str:
    """What belongs into a golden file, as wide as its name says, and 80 columns otherwise."""
    width = re.search(r"-(\d+)-columns", path.name)
    return output(*arguments, width=int(width[1]) if width else _PAGE)


def output(*arguments: str, width: int = _PAGE) -> str:
    """What the command line prints on standard output, in this process and from the repository."""
    written = BytesIO()
    text = TextIOWrapper(written, encoding="utf-8")
    with (
        pytest.MonkeyPatch.context() as terminal,
        contextlib.redirect_stdout(text),
    ):
        terminal.chdir(REPOSITORY)
        terminal.setenv("COLUMNS", str(width))
        terminal.setenv("NO_COLOR", "1")
        main([*arguments, "--utc"], standalone_mode=False)
    text.flush()
    gc.enable()  # verbs that end with their process leave it off
    return written.getvalue().decode()


def table(verbs: tuple[str, ...]) -> str:
    """The examples, what happened in each, and the first line of these verbs on it, in Markdown."""
    rows = [("example", "what happened", *(f"`{verb}`" for verb in verbs))]
    rows += [
        (f"`{Path(source).name}`", _happened(name), *(_first_line(verb, source) for verb in verbs))
        for name, source in sources().items()
    ]
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def _happened(name: str) -> str:
    return (EXAMPLES[name].__doc__ or "").strip()


def _first_line(verb: str, source: str) -> str:
    return output(verb, "--from", source, width=_UNWRAPPED).partition("\n")[0].replace("|", r"\|")


def _forms(verb: str) -> tuple[str, ...]:
    """What the verb's `--output` may be."""
    command = import_module(f"service_record.cli.{verb}").command
    kinds = {option.name: option.type for option in command.params}
    return tuple(kinds["output"].choices)
