"""What stands where, which way imports point, and what a verb loads, read from the folders."""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

import service_record
from tests.builders import entry, write_lines

PACKAGE = Path(service_record.__file__).parent
REPOSITORY = PACKAGE.parent
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
LOOSE = {"__init__.py", "version.py"}
DOORS = {
    *("ctypes", "os", "pathlib", "shutil", "signal", "socket", "sqlalchemy", "starlette"),
    *("subprocess", "sys"),
}
"""Modules for which a pure module has no use."""
TWICE = {"assisted", "bundle", "collector", "export", "follow", "ignition", "preflight", "timeline", "triage"}
"""A verb's module is called like the verb, and so may be the room that does the work."""
PAGE = REPOSITORY / "docs" / "project" / "architecture.md"


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    """The first folder; of what is loose at the top, its own name."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The full names of all a module imports, wherever in it."""
    names: list[str] = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


def rooms_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(path) if name.startswith("service_record.")} & (
        ROOMS | {"version"}
    )


def circle(needs: Mapping[str, set[str]]) -> set[str]:
    """Return what is in a circle of needs, or needs what is in one."""
    settled: set[str] = set()
    while free := {name for name in needs if needs[name] <= settled} - settled:
        settled |= free
    return set(needs) - settled


def module_needs(folder: Path) -> dict[str, set[str]]:
    """Return what each module of a package imports of it, also within functions and for types only."""
    paths = {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in folder.rglob("*.py")
    }
    return {
        name: {full if full in paths else full.rpartition(".")[0] for full in imported(path)} & set(paths)
        for name, path in paths.items()
    }


def docstring(path: Path) -> str:
    return ast.get_docstring(parsed(path)) or ""


def section(title: str) -> str:
    """A section of the page on the architecture."""
    return PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def is_pure(path: Path) -> bool:
    """Return whether the module, or the package that it is in, says so of itself."""
    folders = [folder for folder in path.parents if folder.is_relative_to(PACKAGE) and folder != PACKAGE]
    texts = [docstring(path), *(docstring(folder / "__init__.py") for folder in folders)]
    return any(re.search(r"\bPure\.$", text, re.MULTILINE) for text in texts)


def test_modules_are_in_rooms() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} == LOOSE


def room_needs() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    needs: defaultdict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        if path != PACKAGE / "__init__.py":
            needs[room_of(path)] |= rooms_imported(path) - {room_of(path)}
    return needs


def test_imports_between_rooms_point_one_way() -> None:
    assert not circle(room_needs())


def test_modules_have_no_import_cycles() -> None:
    assert not circle(module_needs(PACKAGE))


def test_cycle_of_lazy_imports_is_detected(tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").touch()
    (house / "ground.py").write_text("import os\n")
    (house / "first.py").write_text("from house import ground, second\n")
    (house / "second.py").write_text("def climb():\n    from house.first import stairs\n")
    assert circle(module_needs(house)) == {"house.first", "house.second"}


def test_evidence_does_not_import_diagnosis() -> None:
    wrong = [
        f"{name_of(path)}: {name}"
        for path in (PACKAGE / "diagnosis/evidence").glob("*.py")
        for name in imported(path)
        if re.match(r"service_record\.diagnosis\.(?!evidence\b)", name)
    ]
    assert not wrong


def test_no_room_imports_the_command_line() -> None:
    assert not [name_of(path) for path in MODULES if room_of(path) != "cli" and "cli" in rooms_imported(path)]


def test_one_room_speaks_http() -> None:
    spoken = {"httpx2", "httpcore2", "stamina", "requests"}
    wrong = [
        f"{name_of(path)}: {name}"
        for path in MODULES
        if room_of(path) != "http"
        for name in imported(path)
        if name.split(".")[0] in spoken or name.startswith("urllib.request")
    ]
    assert not wrong


def test_one_module_runs_programs_for_their_output() -> None:
    """`triage/engines` starts judges, which answer one request after another."""
    users = {name_of(path) for path in MODULES if "subprocess" in imported(path)}
    assert users == {"record/programs.py", "triage/engines.py"}


def test_pages_are_made_in_one_way() -> None:
    """Templates with autoescape, of the one environment."""
    making = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Environment"
    }
    assert making == {"display/html/rendering.py"}
    assert not [name_of(path) for path in MODULES if any("etree" in name for name in imported(path))]


def test_collector_threads_have_one_class() -> None:
    making = {
        name_of(path).removesuffix(".py")
        for path in MODULES
        if room_of(path) == "collector"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Thread")
    }
    assert making == set(re.findall(r"`(collector/\w+/\w+)`", section("Threads of the collector")))


def test_package_does_not_import_tests_or_testing() -> None:
    others = [REPOSITORY / name for name in ("testing", "bench", "demo", "examples", "packages")]
    forbidden = {path: {"tests"} for folder in others for path in folder.rglob("*.py")}
    forbidden |= {path: {"tests", "testing"} for path in MODULES}
    wrong = [
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path, names in forbidden.items()
        for name in imported(path)
        if name.split(".")[0] in names
    ]
    assert not wrong


def test_pure_modules_do_no_input_or_output() -> None:
    wrong = [
        f"{name_of(path)}: {door}"
        for path in MODULES
        if is_pure(path)
        for door in sorted(DOORS & {name.split(".")[0] for name in imported(path)})
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_that_compute_are_pure() -> None:
    for folder in ("history", "diagnosis", "display", "collector/domain"):
        assert is_pure(PACKAGE / folder / "__init__.py"), folder
    for module in ("export/trace.py", "export/otlp.py"):
        assert is_pure(PACKAGE / module), module


def test_module_and_type_names_are_unique() -> None:
    modules = Counter(path.stem if path.name != "__init__.py" else path.parent.name for path in MODULES)
    types = Counter(
        node.name for path in MODULES for node in parsed(path).body if isinstance(node, ast.ClassDef)
    )
    twice = {name for name, times in modules.items() if times > 1} - TWICE
    assert not twice | {name for name, times in types.items() if times > 1}


def test_recording_loads_few_modules() -> None:
    program = f"""
import sys
sys.path.append({str(PACKAGE.parent)!r})
import service_record
service_record.service("job")
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True, check=True)
    unneeded = {
        *("dataclasses", "inspect", "json", "pathlib", "re", "signal", "subprocess"),
        *("traceback", "typing"),
    }
    assert unneeded.isdisjoint(done.stdout.split())


def test_show_does_not_load_the_diagnosis() -> None:
    program = """
import sys
from service_record.cli import main
main(["show", "--from", "-"], standalone_mode=False)
print(*sys.modules)
"""
    line = b'{"timestamp": "2026-11-21T01:05:10Z", "phase": "service start"}'
    done = subprocess.run([sys.executable, "-c", program], input=line, capture_output=True, check=True)
    assert {"re2", "yaml", "service_record.diagnosis"}.isdisjoint(done.stdout.decode().split())


@pytest.mark.parametrize(
    ("verb", "unneeded"),
    [
        ("timeline --from {0}", {"re2", "jinja2", "jsonlines"}),
        ("diff {0} {0}", {"re2", "jsonlines"}),
        ("show --from {0}", {"re2", "wcwidth", "service_record.history.from_journal"}),
        ("show --output jsonl --from {0}", {"re2", "jinja2", "yaml", "service_record.diagnosis"}),
        ("export --to array --from {0}", {"re2", "yaml", "service_record.diagnosis"}),
        ("validate {0}", {"re2", "yaml", "service_record.diagnosis"}),
        ("report --help", {"msgspec", "orjson", "wcwidth", "httpx2"}),
        ("--help", {"msgspec", "wcwidth", "service_record.record.entry"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_verbs_load_only_their_libraries(verb: str, unneeded: set[str], tmp_path: Path) -> None:
    program = """
import sys
from service_record.cli import main
main(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""
    write_lines(tmp_path / "job.json", entry(), entry("service end", 1))
    arguments = verb.format(tmp_path).split()
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=True)
    assert unneeded.isdisjoint(done.stderr.decode().split())


def test_plain_records_load_few_modules(tmp_path: Path) -> None:
    program = f"""
import sys
from service_record.cli import main
main(["analyze", "--from", {str(tmp_path)!r}], standalone_mode=False)
print(*sys.modules)
"""
    write_lines(tmp_path / "job.json", entry(), entry("service end", 1))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert {"jinja2", "jsonlines", "tarfile", "service_record.bundle.opening"}.isdisjoint(loaded)
    assert "service_record.record.layout" in loaded


def test_architecture_page_lists_rooms_and_modules() -> None:
    rooms = {
        folder.relative_to(PACKAGE).as_posix(): folder
        for marker in (*PACKAGE.glob("*/__init__.py"), *PACKAGE.glob("*/*/__init__.py"))
        for folder in [marker.parent]
    }
    rows = re.findall(r"^\| `([\w/]+)` \|[^|]*\|([^|]*)\|$", section("The rooms"), re.MULTILINE)
    assert sorted(room for room, _ in rows) == sorted(rooms)
    wrong = [
        f"{room}: {name}"
        for room, named in rows
        for name in re.findall(r"`([^`]+)`", named)
        if not any((rooms[room] / file).exists() for file in (f"{name}.py", name))
    ]
    assert not wrong
    paths = re.findall(r"`([a-z]+(?:/[a-z_]+)+)`", PAGE.read_text())
    assert not [path for path in paths if not any((PACKAGE / file).exists() for file in (f"{path}.py", path))]


def test_architecture_page_draws_the_imports() -> None:
    drawing = re.sub(r",\n +", ", ", section("Imports point one way"))
    drawn = {
        room: set(needs.split(", ")) if needs else set()
        for room, needs in re.findall(r"^ {4}([a-z]+)(?: +-> (.*))?$", drawing, re.MULTILINE)
    }
    assert drawn == {
        room: set().union(*map(rooms_imported, (PACKAGE / room).rglob("*.py"))) - {room, "version"}
        for room in ROOMS
    }
    places = list(drawn)
    assert not [room for room in drawn for need in drawn[room] if places.index(need) > places.index(room)]


def test_dependencies_page_names_modules_using_jsonlines() -> None:
    page = (PACKAGE.parent / "docs" / "project" / "dependencies.md").read_text()
    section = page.partition("## Where jsonlines is used")[2].partition("\n| where |")[0]
    users = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*.py")
        if "jsonlines" in imported(path)
    }
    assert users == set(re.findall(r"`(service_record/\S+\.py)`", section))


def test_recording_imports_only_the_standard_library() -> None:
    program = """
import sys
before = set(sys.modules)
import service_record
read = {"Entry", "Malformed", "Phase", "Result"}  # which who records does not use
recorder = [getattr(service_record, name) for name in service_record.__all__ if name not in read]
service_record.Records("/nowhere").writer("job")
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["service_record"]
