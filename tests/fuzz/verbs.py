"""Command lines to draw, and what every answer to one has to be like."""

import json
import re
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import yaml
from hypothesis import strategies as st

from service_record.record.visible import UNSEEN
from tests.fuzz.command import Watched, service_record
from tests.fuzz.hostile import RAW_NAMES

_SHOWING = [
    *(("-o", form) for form in ("wide", "json", "jsonl", "yaml")),
    *(("--boot", boot) for boot in ("all", "0", "-1", "1", "b0", "99")),
    *(("--stage", "second"), ("--since", "10m"), ("--since", "2026-11-21T01:05:15Z"), ("--until", "now")),
    *((flag,) for flag in ("--failed", "--fail", "--relative", "--local", "--utc")),
    *(("--color", "always"), ("--from", "{place}")),
]
_EXPORTING = [("--directory", "{out}"), ("--directory", "{out}/new"), ("--from", "{place}")]
_VALIDATING = [("--salvage", "{out}/saved.json"), ("--salvage", "{out}/absent/saved"), ("{place}",)]
_SERVICES = st.lists(RAW_NAMES.filter(lambda name: "\0" not in name), max_size=2)


@st.composite
def _command(draw: st.DrawFn, verb: str, *fixed: str, options: Sequence[tuple[str, ...]]) -> list[str]:
    chosen = draw(st.lists(st.sampled_from(options), max_size=3, unique=True))
    services = draw(_SERVICES) if verb != "validate" and not draw(st.integers(0, 7)) else []
    return [verb, *fixed, *chain.from_iterable(chosen), *services]


COMMANDS = st.one_of(
    _command("show", "--from", "{place}", options=_SHOWING),
    _command("export", "--to", "array", "--from", "{place}", options=_EXPORTING),
    _command("export", "--to", "jsonl", "--from", "{place}", options=_EXPORTING),
    _command("validate", "{place}", options=_VALIDATING),
)
"""Arguments, with `{place}` for what is read and `{out}` for a directory to write to."""


class Terminal(NamedTuple):
    """Device for which lines are printed."""

    columns: str
    encoding: str


TERMINALS = st.builds(Terminal, st.sampled_from(["", "1", "80", "1000"]), st.sampled_from(["utf-8", "ascii"]))
PLAIN: Final = Terminal("", "utf-8")

_STATUS: Final = {"show": {0, 1, 2, 3}, "export": {0, 2, 3, 4}, "validate": {0, 2, 3, 4}}
_SAID: Final = re.compile(
    r"(Error|Warning|Note): .+|.*: \d+ damaged pieces? left out: line \d.*|Usage: .*|  +\S.*|Try: .*|"
)
"""The lines on standard error; those of a traceback are none of them."""
_COLOUR: Final = re.compile(rb"\x1b\[[\d;]*m")
_ACTING: Final = re.compile(f"{UNSEEN}|[\x00-\x09\x0b-\x1f]")


def answered(
    command: Sequence[str], place: str, out: Path, terminal: Terminal = PLAIN, stdin: bytes = b""
) -> Watched:
    """The answer to a command, which wrote nothing outside `out`, and in which nothing acts on a terminal."""
    arguments = [word.replace("{place}", place).replace("{out}", str(out)) for word in command]
    around = out.parent
    answer = service_record(
        *arguments,
        stdin=stdin,
        encoding=terminal.encoding,
        scratch=around / "scratch",
        COLUMNS=terminal.columns,
        SERVICE_RECORDS_DIR=str(around / "home"),
    )
    assert [path for path in answer.touched if not Path(path).is_relative_to(out)] == []
    assert answer.status in _STATUS[command[0]], answer.err
    assert all(map(_SAID.fullmatch, answer.err.splitlines())), answer.err
    assert not _ACTING.search(answer.err), answer.err
    _check_output(_form(command), answer.out)
    return answer


def _form(command: Sequence[str]) -> str:
    """Draw the kind of standard output, when there is any."""
    if command[0] == "export":
        return command[2]
    forms = [after for word, after in pairwise(command) if word == "-o"]
    return forms[-1] if forms else "text"


def _check_output(form: str, out: bytes) -> None:
    text = _COLOUR.sub(b"", out).decode()
    assert not _ACTING.search(text), text
    match form if text else "nothing":
        case "json" | "array":
            json.loads(text)
        case "jsonl":
            for line in text.split("\n")[:-1]:
                json.loads(line)
        case "yaml":
            yaml.load(text, yaml.CSafeLoader)
