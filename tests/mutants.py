"""`make mutants`: change the rooms that judge in small ways, and count which changes the fast tests notice.

First those tests run once, and coverage keeps which of them reach which line. For each change, the tests run
that reach its line, the most special first. All changes would take hours, so a random sample is tried. One
that does the same as the code counts as one that survived, and so does one in what runs only while modules
are imported: the share is a lower bound.
"""

import argparse
import contextlib
import functools
import gc
import importlib
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import coverage
import pytest

from bench.table import aligned, replace_between
from tests.mutations import Mutation, mutated, mutations

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PAGE: Final = REPOSITORY / "docs/project/promises.md"
REACHED: Final = REPOSITORY / ".cache/mutants"
"""Map of the lines that each test reaches."""
ROOMS: Final = ("record", "history", "diagnosis", "redaction", "reporter/policy", "collector/domain")
NAMES: Final = (
    *("array", "array_repair", "atomic_write", "budget", "bundle_contents", "cause_schema", "causes"),
    *("certificates", "clock", "decoding", "diagnosis", "diff"),
    *(
        "display",
        "display_machine",
        "doubts",
        "due",
        "entry",
        "evidence",
        "expectations",
        "scan",
        "signature",
    ),
    *("fact_checks", "failing_hosts", "failure", "gather_facts", "golden", "healthy_hosts", "history"),
    *("journal_forms", "known_facts", "log_lines"),
    *("known_secrets", "layout", "line_patterns", "record_format", "recorder", "recording", "records"),
    *("redaction", "redaction_exact", "redaction_shapes", "reporter_policy", "reporter_settings"),
    *("reporter_state", "residual", "selection", "shipping", "source", "systemd", "timeline"),
    *("units", "upstream_reader", "weighing"),
    *("array_file", "display_text", "quantities", "validate"),
)
COLLECTOR_NAMES: Final = (
    *("assisted", "boot_step", "builds", "cloud_init", "clusters", "definitions", "events", "guard", "mutes"),
    *("notices", "page_timeline", "pages", "records", "retention", "states", "statistics", "steps", "sweep"),
    *("verdicts", "webhook"),
)
"""Tests that call these rooms, in their own process, and are fast."""
MAX_TESTS: Final = 300
BROADEST_TESTS: Final = 60
MAX_SECONDS: Final = 60
MAX_MEMORY_BYTES: Final = 4 << 30
HEAD: Final = ("room", "mutants", "sample", "noticed", "survived", "no tests", "share")
NOTICED, SURVIVED, NO_TESTS = "noticed", "survived", "no tests"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    path: str
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.path}:{self.mutation.line}: {self.mutation.text}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try a sample of the mutants; one of all rooms is written into docs/project/promises.md."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants to try")
    parser.add_argument("--order", type=int, default=int(time.time()), help="the seed that picks them")
    parser.add_argument("--room", choices=ROOMS, action="append", help="try only mutants of this room")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", action="store_true", help="take what was found to reach which line before")
    parser.add_argument("--reach", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.reach:
        return reach(Path(given.reach), test_files()[int(Path(given.reach).suffix[1:]) :: given.processes])
    everything = list(mutants(given.room or ROOMS))
    sample = random.Random(given.order).sample(everything, min(given.sample, len(everything)))
    if not given.keep:
        reach_all(given.processes)
    began = time.monotonic()
    outcomes = dict(tried(sample, given.processes))
    seconds = time.monotonic() - began
    text = f"{len(sample):,} of {len(everything):,} mutants, order {given.order}, {seconds:,.0f} seconds.\n\n"
    table = aligned([HEAD, *rows(everything, outcomes)])
    print(f"\n{text}{table}")
    if not given.room:
        replace_between(PAGE, "mutants", text + table)
    return 0


def mutants(rooms: Sequence[str]) -> Iterator[Mutant]:
    """Yield every change of every module of the rooms."""
    for room in rooms:
        for path in sorted((REPOSITORY / "service_record" / room).rglob("*.py")):
            name = path.relative_to(REPOSITORY).as_posix()
            yield from (Mutant(name, mutation) for mutation in mutations(path.read_text()))


def test_files() -> list[str]:
    """Return the files of the tests that take part."""
    names = [f"tests/test_{name}.py" for name in NAMES]
    names += [f"tests/collector/test_{name}.py" for name in COLLECTOR_NAMES]
    return [name for name in names if (REPOSITORY / name).exists()]


class Contexts:
    """A plugin of pytest that has coverage note which test reaches a line.

    Before each file, the caches of functions are emptied: they would hide which tests need the code that
    fills them.
    """

    def __init__(self, coverage_: coverage.Coverage) -> None:
        self._coverage = coverage_
        self._file: Path | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if item.path != self._file:
            self._file = item.path
            _clear(cache for room, caches in caches_by_room().items() if _is_ours(room) for cache in caches)
        self._coverage.switch_context(item.nodeid.partition("[")[0])
        result = yield
        self._coverage.switch_context("")
        return result


def reach(data: Path, files: Sequence[str]) -> int:
    """Run tests and keep in a file which of them reach which line."""
    measured = coverage.Coverage(data_file=str(data), source=[str(REPOSITORY / "service_record")])
    measured.start()
    status = pytest.main(
        ["-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow", *files], [Contexts(measured)]
    )
    measured.stop()
    measured.save()
    return int(status)


def reach_all(processes: int) -> None:
    """Find out which tests reach which line, each process with its share of the files.

    Raises `SystemExit` when a test fails: it would seem to notice everything.
    """
    REACHED.mkdir(parents=True, exist_ok=True)
    for path in REACHED.iterdir():
        path.unlink()
    command = [sys.executable, "-m", "tests.mutants", "--processes", str(processes), "--reach"]
    running = [
        subprocess.Popen([*command, str(REACHED / f"reached.{number}")], cwd=REPOSITORY)
        for number in range(processes)
    ]
    statuses = [one.wait() for one in running]
    if any(statuses):
        raise SystemExit("Cannot try mutants: a test fails without any; see above.")


def reaching() -> dict[str, dict[int, list[str]]]:
    """Return the tests that reach each line of each module, the most special first."""
    files: dict[str, dict[int, set[str]]] = {}
    sizes: Counter[str] = Counter()
    for path in REACHED.iterdir():
        data = coverage.CoverageData(str(path))
        data.read()
        for file in data.measured_files():
            lines = files.setdefault(Path(file).relative_to(REPOSITORY).as_posix(), {})
            for line, contexts in data.contexts_by_lineno(file).items():
                lines.setdefault(line, set()).update(filter(None, contexts))
                sizes.update(filter(None, contexts))
    return {
        file: {
            line: few(sorted(tests, key=lambda test: (sizes[test], test))) for line, tests in lines.items()
        }
        for file, lines in files.items()
    }


def few(tests: list[str]) -> list[str]:
    """Return some of the tests of a line: the most special, and those that reach most."""
    if len(tests) <= MAX_TESTS:
        return tests
    return [*tests[: MAX_TESTS - BROADEST_TESTS], *tests[-BROADEST_TESTS:]]


def tried(sample: Sequence[Mutant], processes: int) -> Iterator[tuple[Mutant, str]]:
    """Yield what came of each mutant. The tests are collected once, and each mutant has a fork of that."""
    for path in {mutant.path for mutant in sample}:
        importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    trials = Trials(sample, processes)
    options = ["-q", "-s", "-n0", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--timeout=0"]
    pytest.main([*options, "--tb=no", "-m", "not slow", *test_files()], [trials])
    yield from trials.outcomes.items()


class Trials:
    """A plugin of pytest that, in place of running the tests, tries mutants with those that reach them."""

    def __init__(self, sample: Sequence[Mutant], processes: int) -> None:
        self.outcomes: dict[Mutant, str] = {}
        self._sample = sample
        self._processes = processes
        self._running: dict[int, Mutant] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each mutant, some at once."""
        reached = reaching()
        tests: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            tests.setdefault(_function_of(item), []).append(item)
        functions, caches = functions_by_file(), caches_by_room()
        gc.freeze()  # or else what a fork collects copies all of it
        for mutant in self._sample:
            lines = reached.get(mutant.path, {})
            names = lines.get(mutant.mutation.line) or lines.get(mutant.mutation.statement) or []
            items = [item for name in names for item in tests.get(name, [])]
            if not items:
                self._note(mutant, NO_TESTS)
                continue
            if len(self._running) == self._processes:
                self._end_one()
            swap = Swap(
                functions.get(str(REPOSITORY / mutant.path), []), caches.get(_room_of(mutant.path), [])
            )
            self._start(mutant, items, swap)
        while self._running:
            self._end_one()
        return True

    def _note(self, mutant: Mutant, outcome: str) -> None:
        self.outcomes[mutant] = outcome
        if outcome is not NOTICED:
            print(f"{outcome}: {mutant}", flush=True)

    def _end_one(self) -> None:
        child, status = os.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        outcome = SURVIVED if os.waitstatus_to_exitcode(status) == 0 else NOTICED
        self._note(self._running.pop(child), outcome)

    def _start(self, mutant: Mutant, items: Sequence[pytest.Item], swap: "Swap") -> None:
        """Run the tests with the mutant in a process that ends with 0 when they all pass."""
        child = os.fork()
        if child:
            self._running[child] = mutant
            return
        status = 1
        try:
            _set_apart()
            swap.to(mutant)
            status = int(_is_noticed(items))
        finally:
            os._exit(status)


def _function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _set_apart() -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))  # one that never ends is noticed too
    signal.alarm(10 * MAX_SECONDS)  # on a busy machine a test waits, and has not failed
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)


def _is_noticed(items: Sequence[pytest.Item]) -> bool:
    """Run tests up to the first that fails; return whether one did."""
    for item, following in pairwise([*items, None]):
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return True
    return False


def functions_by_file() -> dict[str, list[FunctionType]]:
    """Return the functions there are by the file that they are of."""
    functions: dict[str, list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType:
            functions.setdefault(thing.__code__.co_filename, []).append(thing)
    return functions


Cache: Final = type(functools.cache(len))


def caches_by_room() -> dict[str, list[Any]]:
    """Return the caches of functions by the directory of their module."""
    caches: dict[str, list[Any]] = {}
    for thing in gc.get_objects():
        if type(thing) is Cache and thing.__module__:
            caches.setdefault(_room_of(thing.__module__.replace(".", "/")), []).append(thing)
    return caches


def _clear(caches: Iterable[Any]) -> None:
    for cache in caches:
        cache.cache_clear()


def _is_ours(room: str) -> bool:
    return room.startswith("service_record")


def _room_of(path: str) -> str:
    return path.removesuffix("/__init__.py").rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Swap:
    """The functions of a module, which get a change, and the caches of its room, which may hold results."""

    functions: Sequence[FunctionType]
    caches: Sequence[Any]

    def to(self, mutant: Mutant) -> None:
        """Give the functions the code that they have with the change, and empty the caches."""
        source = (REPOSITORY / mutant.path).read_text()
        changed = _codes(compile(mutated(source, mutant.mutation.number), mutant.path, "exec"))
        for function in self.functions:
            code = changed.get(_place(function.__code__))
            if code is not None and code.co_freevars == function.__code__.co_freevars:
                function.__code__ = code
        _clear(self.caches)


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the code of each function within, by its place."""
    codes: dict[tuple[str, int], CodeType] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            codes |= {_place(inner): inner} | _codes(inner)
    return codes


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def rows(everything: Sequence[Mutant], outcomes: Mapping[Mutant, str]) -> list[tuple[str, ...]]:
    """Return the table's rows: one for each room, and one for all."""
    return [
        *(row(f"`{room}`", f"service_record/{room}/", everything, outcomes) for room in ROOMS),
        row("all", "", everything, outcomes),
    ]


def row(
    label: str, beginning: str, everything: Sequence[Mutant], outcomes: Mapping[Mutant, str]
) -> tuple[str, ...]:
    """Return how many of some mutants were tried, and what came of them."""
    number = sum(mutant.path.startswith(beginning) for mutant in everything)
    came = Counter(outcome for mutant, outcome in outcomes.items() if mutant.path.startswith(beginning))
    counts = (number, came.total(), came[NOTICED], came[SURVIVED], came[NO_TESTS])
    share = f"{came[NOTICED] / came.total():.0%}" if came else ""
    return (label, *(f"{count:,}" for count in counts), share)


if __name__ == "__main__":
    sys.exit(main())
