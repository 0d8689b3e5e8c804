"""Draw command lines of the reading verbs, and check their results."""

import json
import re
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import yaml
from hypothesis import strategies as st

from service_record.record.visible import UNSEEN
from tests.fuzz.command import CommandResult, service_record
from tests.fuzz.hostile import RAW_NAMES

_SHOW_OPTIONS = [
    *(("-o", output_format) for output_format in ("wide", "json", "jsonl", "yaml")),
    *(("--boot", boot) for boot in ("all", "0", "-1", "1", "b0", "99")),
    *(("--stage", "second"), ("--since", "10m"), ("--since", "2026-11-21T01:05:15Z"), ("--until", "now")),
    *((flag,) for flag in ("--failed", "--fail", "--relative", "--local", "--utc")),
    *(("--color", "always"), ("--from", "{place}")),
]
_EXPORT_OPTIONS = [("--directory", "{out}"), ("--directory", "{out}/new"), ("--from", "{place}")]
_VALIDATE_OPTIONS = [("--salvage", "{out}/saved.json"), ("--salvage", "{out}/absent/saved"), ("{place}",)]
_SERVICES = st.lists(RAW_NAMES.filter(lambda name: "\0" not in name), max_size=2)


@st.composite
def _draw_command(
    draw: st.DrawFn, verb: str, *arguments: str, options: Sequence[tuple[str, ...]]
) -> list[str]:
    drawn_options = draw(st.lists(st.sampled_from(options), max_size=3, unique=True))
    services = draw(_SERVICES) if verb != "validate" and not draw(st.integers(0, 7)) else []
    return [verb, *arguments, *chain.from_iterable(drawn_options), *services]


COMMANDS = st.one_of(
    _draw_command("show", "--from", "{place}", options=_SHOW_OPTIONS),
    _draw_command("export", "--to", "array", "--from", "{place}", options=_EXPORT_OPTIONS),
    _draw_command("export", "--to", "jsonl", "--from", "{place}", options=_EXPORT_OPTIONS),
    _draw_command("validate", "{place}", options=_VALIDATE_OPTIONS),
)
"""Arguments with the placeholders `{place}` for the input and `{out}` for a directory to write to."""


class Terminal(NamedTuple):
    """Width and encoding of a terminal; an empty width is unknown."""

    columns: str
    encoding: str


TERMINALS = st.builds(Terminal, st.sampled_from(["", "1", "80", "1000"]), st.sampled_from(["utf-8", "ascii"]))
PLAIN: Final = Terminal("", "utf-8")

_STATUSES: Final = {"show": {0, 1, 2, 3}, "export": {0, 2, 3, 4}, "validate": {0, 2, 3, 4}}
_ERROR_LINES: Final = re.compile(
    r"(Error|Warning|Note): .+|.*: \d+ damaged pieces? left out: line \d.*|Usage: .*|  +\S.*|Try: .*|"
)
"""Allowed lines on standard error; a traceback has others."""
_COLOUR: Final = re.compile(rb"\x1b\[[\d;]*m")
_CONTROL_CHARACTERS: Final = re.compile(f"{UNSEEN}|[\x00-\x09\x0b-\x1f]")


def run_command(
    command: Sequence[str], place: str, out: Path, terminal: Terminal = PLAIN, stdin: bytes = b""
) -> CommandResult:
    """Run a command. Check that it wrote nothing outside `out`, and that its output has no control characters
    for a terminal.
    """
    arguments = [word.replace("{place}", place).replace("{out}", str(out)) for word in command]
    directory = out.parent
    result = service_record(
        *arguments,
        stdin=stdin,
        encoding=terminal.encoding,
        scratch=directory / "scratch",
        COLUMNS=terminal.columns,
        SERVICE_RECORDS_DIR=str(directory / "home"),
    )
    assert [path for path in result.touched if not Path(path).is_relative_to(out)] == []
    assert result.status in _STATUSES[command[0]], result.err
    assert all(map(_ERROR_LINES.fullmatch, result.err.splitlines())), result.err
    assert not _CONTROL_CHARACTERS.search(result.err), result.err
    _check_output(_find_format(command), result.out)
    return result


def _find_format(command: Sequence[str]) -> str:
    """Return the output format of a command."""
    if command[0] == "export":
        return command[2]
    formats = [value for word, value in pairwise(command) if word == "-o"]
    return formats[-1] if formats else "text"


def _check_output(output_format: str, out: bytes) -> None:
    text = _COLOUR.sub(b"", out).decode()
    assert not _CONTROL_CHARACTERS.search(text), text
    match output_format if text else "nothing":
        case "json" | "array":
            json.loads(text)
        case "jsonl":
            for line in text.split("\n")[:-1]:
                json.loads(line)
        case "yaml":
            yaml.load(text, yaml.CSafeLoader)
