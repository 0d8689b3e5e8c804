"""Every output of the reading verbs on every example, whatever this host's clock and zone are."""

import contextlib
import re
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from examples.scenes import EXAMPLES, PACKED
from service_record.cli import main
from service_record.export import FORMS
from tests.golden.followed import followed

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PLACE: Final = REPOSITORY / "docs" / "examples"
GOLDEN: Final = REPOSITORY / "tests" / "golden"
TABLE_PAGE: Final = PLACE / "README.md"
"""The page with the table of the examples."""

_VERBS: Final = ("show", "analyze", "timeline")
_FORMS: Final = {"table": ".txt", "wide": "-wide.txt"}
_MORE: Final = {
    "timeline-by-duration.txt": ("timeline", "--by-duration"),
    "show-200-columns.txt": ("show",),
    "analyze-200-columns.txt": ("analyze",),
    "timeline-200-columns.txt": ("timeline",),
}
IN_FULL: Final = ("boot-loop", "failed-stage")
"""Examples of which every output has a golden file. A form says the same of the others."""
READ: Final = ("show.txt", "analyze.txt", "timeline.txt", "diff.txt", "validate.txt")
"""Texts of the other examples that people read, besides the JSON of each."""
EXIT_CODES: Final = GOLDEN / "exit-codes.txt"
_ENDING: Final = ("show", "show --fail", "analyze", "timeline", "diff", "validate")
_PAGE: Final = 80
_UNWRAPPED: Final = 400
_MADE: Final = "1795564800"
"""Time of making on pages: 2026-11-25."""


def sources() -> dict[str, str]:
    """Example -> what to give `--from`: its directory, or its bundle, from the repository."""
    places = {name: PLACE / (f"{name}.tar.gz" if name in PACKED else name) for name in EXAMPLES}
    return {name: str(path.relative_to(REPOSITORY)) for name, path in places.items()}


def golden_files() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Each golden file, and the arguments of what it is the output of."""
    for path, arguments in _outputs():
        if path.parent.name in IN_FULL or path.suffix == ".json" or path.name in READ:
            yield path, arguments


def _outputs() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Every output of every example."""
    for name, source in sources().items():
        for verb in _VERBS:
            yield from _of_verb(name, verb, "--from", source, "--utc")
        for file, arguments in _MORE.items():
            yield GOLDEN / name / file, (*arguments, "--from", source, "--utc")
        yield from _of_verb(name, "diff", sources()["good"], source, "--utc")
        yield GOLDEN / name / "diff-200-columns.txt", ("diff", sources()["good"], source, "--utc")
        yield from _of_verb(name, "follow", "--from", source, "--utc")
        for form in choices("export", "form"):
            yield GOLDEN / name / f"export-{form}.txt", ("export", "--from", source, "--to", form)
        yield GOLDEN / name / "validate.txt", ("validate", source)


def _of_verb(name: str, verb: str, *arguments: str) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for form in choices(verb, "output"):
        suffix = _FORMS.get(form, f".{form}")
        yield GOLDEN / name / f"{verb}{suffix}", (verb, *arguments, "--output", form)


def choices(verb: str, option: str) -> tuple[str, ...]:
    """Return the choices of a verb's option."""
    command = import_module(f"service_record.cli.{verb}").command
    kinds = {each.name: each.type for each in command.params}
    return tuple(kinds[option].choices)


def render(path: Path, arguments: tuple[str, ...]) -> str:
    """Return the text of a golden file, as wide as its name says, and 80 columns otherwise."""
    width = re.search(r"-(\d+)-columns", path.name)
    with _terminal(int(width[1]) if width else _PAGE):
        match arguments:
            case "follow", "--from", source, *rest:
                return followed(Path(source), *rest)
            case "export", *_, form if form in FORMS:
                return _exported(*arguments)
        # The script is the same file in every page; its digest stays, in the policy.
        return _SCRIPT.sub("<script></script>", _answer(*arguments)[1])


_SCRIPT: Final = re.compile(r"<script>.*?</script>", re.DOTALL)


def exit_codes() -> str:
    """Return how the verbs end on each example, a row each; of `diff`, compared with the good one."""
    rows: list[tuple[str, ...]] = [("", *_ENDING)]
    with _terminal(_PAGE):
        for name, source in sources().items():
            places = {"diff": (sources()["good"], source), "validate": (source,)}
            calls = [verb.split() + list(places.get(verb, ("--from", source))) for verb in _ENDING]
            rows.append((name, *(str(_answer(*call)[0]) for call in calls)))
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    padded = ((cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "".join(f"{''.join(row).rstrip()}\n" for row in padded)


def output(*arguments: str, width: int = _PAGE) -> str:
    """Return the standard output of the command line, run from the repository."""
    with _terminal(width):
        return _answer(*arguments)[1]


@contextlib.contextmanager
def _terminal(width: int) -> Iterator[None]:
    """The repository as the current directory of a terminal so wide, without colours."""
    with pytest.MonkeyPatch.context() as terminal:
        terminal.chdir(REPOSITORY)
        terminal.setenv("COLUMNS", str(width))
        terminal.setenv("NO_COLOR", "1")
        terminal.setenv("SOURCE_DATE_EPOCH", _MADE)
        yield


def _answer(*arguments: str) -> tuple[int, str]:
    """The exit code of the command line in this process, and what it prints on standard output."""
    written = BytesIO()
    text = TextIOWrapper(written, encoding="utf-8")
    with contextlib.redirect_stdout(text):
        status = main(arguments, standalone_mode=False)
    text.flush()
    return status or 0, written.getvalue().decode()


def _exported(*arguments: str) -> str:
    """The files that an export of all services writes, each below its name."""
    with TemporaryDirectory() as directory:
        _answer(*arguments, "--directory", directory)
        files = sorted(Path(directory).iterdir())
        return "".join(f"==> {file.name} <==\n{file.read_text()}" for file in files)


def table() -> str:
    """Return a Markdown table of the examples, with the first lines of `show` and `analyze`."""
    verbs = ("show", "analyze")
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
    page = output(verb, "--from", source, "--utc", width=_UNWRAPPED)
    return page.partition("\n")[0].replace("|", r"\|")
