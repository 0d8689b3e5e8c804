"""Run each kind of ending with the shim and without it, and judge the record."""

import re
import signal
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.endings.kinds import OPTIONS, Kind, Place, read_kinds
from tests.shell.scripts import ABSENT, SHIM, Bash, Completed, Entry, run_script


class Verdict(StrEnum):
    """Verdict on the recorded line of a failure."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    ABSENT = "absent"
    WRONG = "wrong"
    NO_FAILURE = "no failure"


PARALLEL_RUNS = 4  # more than processors: most of the time is spent starting processes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One kind of ending under one bash and one set of options, run without the shim and with it."""

    kind: Kind
    options: str
    plain: Completed
    recorded: Completed

    @property
    def end(self) -> Entry | None:
        """The `service end` entry, if there is one."""
        ends = self.recorded.find_entries("service end")
        return ends[-1] if ends else None

    @property
    def verdict(self) -> Verdict:
        """Compare the recorded line with the true one. An inexact line must be marked as approximate."""
        if self.plain.returncode == 0:
            return Verdict.NO_FAILURE
        if self.end is None or "errorLine" not in self.end:
            return Verdict.ABSENT
        if self.end.get("errorLineApproximate"):
            return Verdict.APPROXIMATE if self.has_existing_line else Verdict.WRONG
        return Verdict.EXACT if self.has_true_line else Verdict.WRONG

    @property
    def has_true_line(self) -> bool:
        """Return True if line, function and file are the marked ones. Standard input and -c have no file."""
        place = self.kind.find_place(self.options)
        if place is None or self.end is None:
            return False
        line, function, file = self.end["errorLine"].split(" ", 2)
        same_file = file == place.file or "run" in self.kind.settings
        return (line, function) == (str(place.line), place.function) and same_file

    @property
    def has_existing_line(self) -> bool:
        """Return True if the script has the recorded line. An approximate line must exist."""
        assert self.end is not None
        line, _, file = self.end["errorLine"].split(" ", 2)
        texts = {self.kind.name: self.kind.get_text(self.options)}
        texts |= {f"./{name}": text for name, text in self.kind.others.items()}
        return file in texts and 1 <= int(line) <= texts[file].count("\n")

    @property
    def has_true_command(self) -> bool:
        """Return True if the recorded command is in the text from the marked line on.

        Bash prints its own white space. An `exit` is recorded with its final arguments.
        """
        place = self.kind.find_place(self.options)
        if place is None or self.end is None or "command" not in self.end:
            return True
        if self.end["command"] in ("exit", f"exit {self.plain.returncode}"):
            return True
        return remove_space(self.end["command"]) in remove_space(self.get_text_from(place))

    @property
    def complaints(self) -> list[str]:
        """Return the false or harmful results, which are errors even if the table has them."""
        status = self.plain.returncode
        expected = ("failure" if status else "success", status if status >= 0 else None)
        recorded = None if self.end is None else (self.end["result"], self.end.get("exitCode"))
        unrecorded = "unrecorded" in self.kind.settings
        conditions = {
            "a false line": self.verdict is Verdict.WRONG,
            "changed": self.recorded.behaviour != self.plain.behaviour,
            "a false end": recorded != (None if unrecorded else expected),
            "a damaged line": bool(self.recorded.damaged),
            "another command": self.verdict is Verdict.EXACT and not self.has_true_command,
        }
        return [f"{self}: {complaint}: {self.end}" for complaint, is_met in conditions.items() if is_met]

    def __str__(self) -> str:
        status = self.plain.returncode
        exit_description = (
            f"exited {status}" if status >= 0 else f"died of {signal.Signals(-status).name[3:]}"
        )
        line = "" if self.verdict is Verdict.NO_FAILURE else f"; line {self.verdict}"
        return f"{self.kind.title}; {self.options}: {exit_description}{line}"

    def get_text_from(self, place: Place) -> str:
        """Return the text from the line of a place to its end."""
        text = self.kind.others.get(place.file.removeprefix("./"), self.kind.get_text(self.options))
        return "\n".join(text.split("\n")[place.line - 1 :])


def remove_space(text: str) -> str:
    """Return a text without white space, continued lines and the `;` that bash adds when it prints."""
    return re.sub(r"\\\n|[\s;]", "", text)


def run_ending(bash: Bash, options: str, kind: Kind) -> Ending:
    """Run one kind of ending, with the shim and without it."""
    return Ending(
        kind=kind,
        options=options,
        plain=run(bash, options, kind, ABSENT),
        recorded=run(bash, options, kind, SHIM),
    )


def run(bash: Bash, options: str, kind: Kind, shim: Path) -> Completed:
    """Run one kind of ending in its own directory."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for file, text in kind.others.items():
            directory.joinpath(file).write_text(text)
        return run_script(
            bash,
            kind.get_text(options),
            directory,
            shim=shim,
            name=kind.name,
            how=kind.settings.get("run", "file"),
        )


def run_table(bash: Bash) -> list[Ending]:
    """Run each kind of the table with each set of options, the doubtful ones with `set -e` only."""
    return run_endings(
        bash,
        [(kind, name) for kind in read_kinds() for name in OPTIONS if not kind.doubtful or name != "none"],
    )


def run_endings(bash: Bash, cases: Iterable[tuple[Kind, str]]) -> list[Ending]:
    """Run kinds of ending, each with a set of options."""
    with ThreadPoolExecutor(PARALLEL_RUNS) as pool:
        return list(pool.map(lambda case: run_ending(bash, case[1], case[0]), cases))
