"""An installation without extras: every verb that needs one says so in a line."""

import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from service_record.cli import EXTRAS
from service_record.reporter.paths import Places
from tests.builders import entry
from tests.command_line import Answer, environment
from tests.programs import REPOSITORY

WITHOUT = {"isal"}
"""Modules that an extra brings, and that can be done without."""
MODULES = {"drain3-improved": "drain3", "opentelemetry-proto": "opentelemetry"}
"""Libraries whose module is called otherwise."""


def needed(name: str) -> dict[str, Distribution]:
    """A distribution and all that it needs without extras, by name."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop().lower().replace("_", "-")
        if one not in found:
            found[one] = distribution(one)
            requirements = [Requirement(line) for line in found[one].requires or ()]
            waiting += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what a plain installation brings, and nothing of its extras."""
    directory = tmp_path_factory.mktemp("libraries")
    (directory / "service_record").symlink_to(REPOSITORY / "service_record")
    for name, one in needed("service-record").items():
        tops = {path.parts[0] for path in one.files or () if name != "service-record"}
        for top in tops - {"..", "__pycache__"}:
            place = directory / top
            if not place.exists():
                place.symlink_to(str(one.locate_file(top)))
    return directory


def plain(libraries: Path, *arguments: str, setup: str = "", **variables: str) -> Answer:
    """`service-record` of an installation without extras."""
    program = f"""
import sys
sys.path.append({str(libraries)!r})
{setup}
from service_record.cli import main
main(prog_name="service-record")
"""
    done = subprocess.run(
        [sys.executable, "-IS", "-X", f"pycache_prefix={libraries}/bytecode", "-c", program, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("collector", ("collector", "serve")),
        ("collector", ("collector", "token", "create", "admin")),
        ("collector", ("collector", "token", "list")),
        ("collector", ("collector", "audit")),
        ("collector", ("collector", "backup", "/nowhere/backup")),
        ("collector", ("collector", "restore", "TOKEN")),
        ("collector", ("collector", "prune", "--keep-days", "1")),
        ("client", ("ship", "--to", "http://127.0.0.1:1")),
        ("otlp", ("ship", "--to", "otlp+http://127.0.0.1:1")),
        ("client", ("hosts", "--from", "collector+http://127.0.0.1:1")),
        ("client", ("show", "--from", "collector+http://127.0.0.1:1/web1")),
        ("client", ("analyze", "--from", "collector+http://127.0.0.1:1/web1")),
        ("reporter", ("report",)),
        ("reporter", ("report", "--dry-run")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_missing_extra_is_one_line_with_install_command(
    libraries: Path, tmp_path: Path, extra: str, arguments: tuple[str, ...]
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    words = [str(token) if word == "TOKEN" else word for word in arguments]
    if words[0] == "collector":
        words += ["--data", str(tmp_path)]
    answer = plain(libraries, *words, SERVICE_RECORD_TOKEN_FILE=str(token))
    assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1), answer.err
    assert answer.err.startswith(f"Error: the extra '{extra}' is needed, and ")
    assert answer.err.endswith(f" 'service-record[{extra}]'\n")


@pytest.mark.parametrize(
    ("file", "install"),
    [
        ("pip/__init__.py", f"{sys.executable} -m pip install"),
        ("pipx_metadata.json", "pipx runpip environment install"),
        ("uv-receipt.toml", f"uv pip install --python {sys.executable}"),
    ],
    ids=["pip", "pipx", "uv tool"],
)
def test_message_has_the_whole_command_of_the_environment(
    libraries: Path, tmp_path: Path, file: str, install: str
) -> None:
    environment_folder = tmp_path / "environment"
    (environment_folder / file).parent.mkdir(parents=True)
    (environment_folder / file).touch()
    setup = f"sys.prefix = {str(environment_folder)!r}; sys.path.append(sys.prefix)"
    answer = plain(libraries, "report", setup=setup)
    assert answer.err.endswith(f" not installed: {install} 'service-record[reporter]'\n")


LOGS_TO_A_DEAD_JOURNAL = """
import os, service_record.record.journal_sending as journal_sending
journal_sending.SOCKET = "/nonexistent"
standard_error = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{standard_error.st_dev}:{standard_error.st_ino}"
"""


def test_timer_round_without_its_extra_succeeds(libraries: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    arguments = ("report", "--due", "--root", str(tmp_path))
    answer = plain(libraries, *arguments, setup=LOGS_TO_A_DEAD_JOURNAL)
    assert (answer.status, answer.out, answer.err.count("\n")) == (0, "", 1)
    assert answer.err.startswith("<3>Error: the extra 'reporter' is needed, and ")
    again = plain(libraries, *arguments, setup=LOGS_TO_A_DEAD_JOURNAL)
    assert (again.status, again.err) == (0, "")


def test_reporter_without_its_extra_can_be_stopped(libraries: Path, tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.spool_directory.mkdir(parents=True)
    (places.spool_directory / "log-bundle-1.tar.gz").write_bytes(b"bundle")
    places.records.mkdir(parents=True)
    (places.records / "job.json").write_bytes(entry().to_line())

    stopped = plain(libraries, "report", "--stop", "--root", str(tmp_path))
    assert (stopped.status, places.tombstone.exists()) == (0, True), stopped.err

    shown = plain(libraries, "show", "--from", str(places.records))
    assert "Note: the boot reporter keeps a bundle that not every destination has: " in shown.err
    assert shown.status == 0


def test_timer_round_keeps_exit_code_of_leak(libraries: Path, tmp_path: Path) -> None:
    leaks = """
import click
from service_record.reporter import due

def leak(*_):
    raise click.exceptions.Exit(6)

due.is_anything_due = leak
"""
    setup = f"sys.path.append({str(libraries)!r}){leaks}"
    answer = plain(libraries, "report", "--due", "--root", str(tmp_path), setup=setup)
    assert (answer.status, answer.err) == (6, "")


def test_timer_round_with_broken_library_logs_one_line(libraries: Path, tmp_path: Path) -> None:
    broken = "sys.modules['service_record.reporter.due'] = None"
    answer = plain(libraries, "report", "--due", "--root", str(tmp_path), setup=broken)
    assert (answer.status, answer.err.count("\n")) == (0, 1)
    assert answer.err.startswith("Error: no round was made: ModuleNotFoundError: ")


def test_executable_does_not_suggest_pip(libraries: Path) -> None:
    has_module = "sys.builtin_module_names += ('_standalone',)"
    answer = plain(libraries, "ship", "--to", "otlp+https://127.0.0.1:1", setup=has_module)
    assert answer.status == 2
    assert answer.err == (
        "Error: the extra 'otlp' is needed, and httpx2 and opentelemetry are not in this executable: "
        "on a host with Python, pip install 'service-record[otlp]'\n"
    )


@pytest.mark.parametrize("arguments", [("--help",), ("collector", "serve", "--help"), ("report", "--help")])
def test_help_needs_no_extra(libraries: Path, arguments: tuple[str, ...]) -> None:
    answer = plain(libraries, *arguments)
    assert (answer.status, answer.err) == (0, "")


def test_each_module_that_an_extra_brings_is_known() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    brought = {
        extra: {MODULES.get(name, name) for line in lines if (name := Requirement(line).name) not in WITHOUT}
        for extra, lines in project["optional-dependencies"].items()
    }
    assert brought == {
        extra: {module.replace("_", "-") for module in modules} for extra, modules in EXTRAS.items()
    }
