"""The tables of docs/shim-matrix.md, made of the results alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.table import aligned
from tests.matrix.table import NAMES, noted, versions

PAGE: Final = Path(__file__).parents[2] / "docs/shim-matrix.md"
_OPTION_SETS: Final = {"euoE": "-euoE pipefail", "euo": "-euo pipefail", "none": "none"}
Cells = Mapping[tuple[str, str], str]
"""What a case came to, by row and column."""


def sections() -> dict[str, str]:
    """The generated parts of the page, by the name of their place in it."""
    return {"cases": _counts()} | {name: _section(name) for name in NAMES}


def _counts() -> str:
    rows = [[name, *(str(len(noted(version, name) or ())) for version in versions())] for name in NAMES]
    return aligned([["cases", *(f"bash {version}" for version in versions())], *rows])


def _section(name: str) -> str:
    cells = _cells(name)
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    shown = {row: tuple(cells.get((row, column), "") for column in columns) for row in rows}
    if name == "options":
        (usual, many), *_ = Counter(shown.values()).most_common()
        shown = {f"{many} of them": usual} | {row: cell for row, cell in shown.items() if cell != usual}
    return aligned([["", *columns], *([row, *cell] for row, cell in shown.items())])


def _cells(name: str) -> Cells:
    """The cells of one dimension; where versions of bash differ, a cell says which says what."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for version in versions():
        for line in noted(version, name) or ():
            title, _, outcome = line.rpartition(": ")
            said = found.setdefault(_place(name, title), {})
            said.setdefault(_in_short(name, outcome), []).append(version)
    return {place: _merged(said) for place, said in found.items()}


def _merged(said: Mapping[str, Sequence[str]]) -> str:
    if len(said) == 1:
        return next(iter(said))
    return "; ".join(f"{', '.join(those)}: {what}" for what, those in said.items())


def _place(name: str, title: str) -> tuple[str, str]:
    """The row and the column of a case."""
    if name == "signals":
        signal, _, state = title.partition(" in ")
        return state, signal.replace(" to the ", " ")
    row, _, column = title.rpartition("; ")
    return row.replace("|", "\\|"), _OPTION_SETS.get(column, column)


def _in_short(name: str, outcome: str) -> str:
    """An outcome in the words of the page."""
    if name == "endings":
        return outcome.replace("; line ", ", ")
    ended, _, told = outcome.partition("; ")
    if name != "signals":
        return f"{told.replace(', status 0', '')}{', seen' if '(seen)' in ended else ''}"
    if ended.startswith("exited 0"):
        return "went on"
    if ended.startswith("exited"):
        return f"{ended}, told" if told.startswith("failure") else outcome
    return "died, " + {"success, status 0": "as success", "failure, signal unknown": "told"}.get(told, told)
