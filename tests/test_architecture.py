"""Imports point one way, as docs/architecture.md draws it, and recording needs the standard library only."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import service_record
from tests.builders import entry, write_lines

PACKAGE = Path(service_record.__file__).parent

PARTS = {
    "format": {"entry", "fields", "left_out", "line", "passage", "plain", "version"},
    "layout": {"conformance", "following", "layout", "salvage", "sighting"},
    "records": {"records", "rereading", "writer", "array"},
    "live": {"live", "watching"},
    "systemd": {"systemd"},
    "recorder": {"recorder"},
    "history": {"history"},
    "duration": {"duration"},
    "diagnosis": {"diagnosis"},
    "rotation": {"rotation"},
    "bundle": {"bundle"},
    "trust": {"trust"},
    "client": {"answer_limit", "collector_address", "collector_client", "growing", "sending"},
    "source": {"source", "remote", "foreign"},
    "redaction": {"redaction"},
    "reporter": {"reporter"},
    "display": {"display"},
    "export": {"export"},
    "preflight": {"preflight"},
    "deploy": {"deploy"},
    "manual": {"manual"},
    "collector": {"collector"},
    "cli": {"cli"},
}
MAY_IMPORT = {
    "format": set(),
    "layout": {"format"},
    "records": {"format", "layout", "systemd"},
    "live": {"format", "layout", "records"},
    "systemd": set(),
    "recorder": {"format", "records", "systemd"},
    "history": {"format"},
    "duration": set(),
    "diagnosis": {"format", "history", "duration"},
    "rotation": {"format", "layout", "records", "history", "diagnosis"},
    "bundle": {"format", "layout", "records", "export"},
    "trust": set(),
    "client": {"format", "layout", "records", "trust"},
    "source": {"format", "layout", "records", "systemd", "history", "bundle", "client"},
    "redaction": {"format"},
    "display": {"format", "history", "diagnosis"},
    "export": {"format", "history", "display"},
    "reporter": set(PARTS) - {"cli", "recorder", "reporter", "preflight", "deploy", "manual", "collector"},
    "preflight": {"reporter", "trust"},
    "deploy": {"format", "reporter"},
    "manual": {"format", "deploy"},
    "collector": set(PARTS) - {"cli", "recorder", "reporter", "preflight", "deploy", "manual", "collector"},
    "cli": set(PARTS) - {"cli"},
}
PURE = {"format", "layout", "history", "duration", "diagnosis", "display", "export"}
PURE_OF_COLLECTOR = {
    "access",
    "budgets",
    "definitions",
    "names",
    "progress",
    "reading",
    "repeats",
    "statistics",
    "steps",
    "verdicts",
}
PURE_OF_PREFLIGHT = {"checks"}
DOORS = {"os", "pathlib", "shutil", "signal", "socket", "subprocess", "sys"}

modules = pytest.mark.parametrize(
    "path", [pytest.param(path, id=str(path.relative_to(PACKAGE))) for path in sorted(PACKAGE.rglob("*.py"))]
)


def part_of(path: Path) -> str:
    """The part a module of the package belongs to; the package itself is the public face of them all."""
    name = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if name == "__init__":
        return "public"
    return next((part for part, names in PARTS.items() if name in names), f"no part has a module {name}")


def imported(path: Path) -> Iterator[str]:
    """The full names of all a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_parts(path: Path) -> set[str]:
    names = [name.split(".")[1] for name in imported(path) if name.startswith("service_record.")]
    return {part for part, members in PARTS.items() for name in names if name in members}


@modules
def test_every_module_has_a_part_and_imports_only_what_that_part_may(path: Path) -> None:
    part = part_of(path)
    allowed = set(PARTS) - {"cli"} if part == "public" else MAY_IMPORT.get(part)
    assert allowed is not None, part
    assert imported_parts(path) - {part} <= allowed


@modules
def test_a_pure_module_imports_no_way_out(path: Path) -> None:
    if part_of(path) in PURE:
        assert DOORS.isdisjoint(name.split(".")[0] for name in imported(path))


@pytest.mark.parametrize("name", sorted(PURE_OF_COLLECTOR))
def test_what_a_collector_judges_by_opens_nothing_and_asks_nobody(name: str) -> None:
    names = set(imported(PACKAGE / "collector" / f"{name}.py"))
    ours = {one.split(".")[2] for one in names if one.startswith("service_record.collector.")}
    assert (DOORS | {"sqlalchemy", "starlette", "time"}).isdisjoint(one.split(".")[0] for one in names)
    assert ours <= PURE_OF_COLLECTOR


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem) for path in sorted((PACKAGE / "collector/assisted").glob("*.py"))],
)
def test_the_rules_of_an_assisted_service_open_nothing_and_ask_nobody(path: Path) -> None:
    names = set(imported(path))
    ours = {one.split(".")[2] for one in names if one.startswith("service_record.collector.")}
    assert (DOORS | {"sqlalchemy", "starlette", "time"}).isdisjoint(one.split(".")[0] for one in names)
    assert ours <= {"assisted"}


@pytest.mark.parametrize("name", sorted(PURE_OF_PREFLIGHT))
def test_what_preflight_judges_by_opens_nothing(name: str) -> None:
    names = set(imported(PACKAGE / "preflight" / f"{name}.py"))
    assert (DOORS | {"ctypes", "service_record", "time", "urllib"}).isdisjoint(
        one.split(".")[0] for one in names
    )


def test_the_parts_depend_on_one_another_in_no_circle() -> None:
    settled: set[str] = set()
    while settled != set(PARTS):
        free = {part for part, needs in MAY_IMPORT.items() if needs <= settled}
        assert free - settled, f"a circle among {set(PARTS) - settled}"
        settled |= free


def test_a_recorded_service_does_not_load_what_it_may_never_need() -> None:
    program = f"""
import sys
sys.path.append({str(PACKAGE.parent)!r})
import service_record
service_record.service("job")
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True, check=True)
    assert {"pathlib", "signal", "subprocess", "traceback"}.isdisjoint(done.stdout.split())


def test_showing_does_not_load_what_only_judging_needs() -> None:
    program = """
import sys
from service_record.cli import main
main(["show", "--from", "-"], standalone_mode=False)
print(*sys.modules)
"""
    line = b'{"timestamp": "2026-11-21T01:05:10Z", "phase": "service start"}'
    done = subprocess.run([sys.executable, "-c", program], input=line, capture_output=True, check=True)
    assert {"re2", "yaml", "service_record.diagnosis"}.isdisjoint(done.stdout.decode().split())


def test_plain_records_in_a_directory_load_nothing_that_only_damage_and_archives_need(tmp_path: Path) -> None:
    program = f"""
import sys
from service_record.cli import main
main(["analyze", "--from", {str(tmp_path)!r}], standalone_mode=False)
print(*sys.modules)
"""
    write_lines(tmp_path / "job.json", entry(), entry("service end", 1))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert {"jsonlines", "tarfile", "service_record.bundle.opening"}.isdisjoint(loaded)
    assert "service_record.layout" in loaded


def test_the_page_on_dependencies_names_every_module_that_uses_jsonlines() -> None:
    page = (PACKAGE.parent / "docs" / "dependencies.md").read_text()
    section = page.partition("## Where jsonlines is used")[2].partition("\n| where |")[0]
    users = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*.py")
        if "jsonlines" in imported(path)
    }
    assert users == set(re.findall(r"`(service_record/\S+\.py)`", section))


def test_recording_imports_nothing_but_the_standard_library() -> None:
    program = """
import sys
before = set(sys.modules)
import service_record
recorder = [getattr(service_record, name) for name in service_record.__all__]
service_record.Records("/nowhere").writer("job")
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["service_record"]
