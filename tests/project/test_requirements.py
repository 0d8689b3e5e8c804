"""What pyproject.toml asks for is locked, and docs/project/dependencies.md has each library."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from packages import dependencies
from tests.programs import REPOSITORY

LOCKS = {
    "dev": (
        *("runtime", "reporter", "client", "collector", "notices", "triage", "dask", "otlp", "mcp"),
        *("test", "check", "dev"),
    ),
    "demo": ("runtime", "demo"),
    "standalone": ("runtime", "reporter", "standalone"),
}
MAY_BE_INSTALLED_WITH_OURS = {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MPL-2.0", "PSF-2.0"}
MAY_BE_INSTALLED_BESIDE = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}


def asked_for(lock: str) -> dict[str, Requirement]:
    parts = LOCKS[lock]
    return {canonicalize_name(each.name): each for part in parts for each in dependencies.project()[part]}


def rows() -> dict[str, list[str]]:
    """The cells of each row in the tables of the page, by library."""
    lines = dependencies.PAGE.read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {row[0]: row for row in cells if row[0] != "library" and "---" not in row[0]}


@pytest.mark.parametrize("lock", LOCKS)
def test_locked_versions_are_within_bounds(lock: str) -> None:
    pins = dependencies.locked(REPOSITORY / f"requirements/{lock}.txt")
    wanted = asked_for(lock)
    wrong = [name for name, each in wanted.items() if not each.specifier.contains(pins.get(name, "0"))]
    assert not wrong, "make lock"


@pytest.mark.parametrize("lock", LOCKS)
def test_locked_libraries_have_hashes(lock: str) -> None:
    text = (REPOSITORY / f"requirements/{lock}.txt").read_text()
    pins = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(pins) > len(asked_for(lock))
    assert [pin for pin in pins if "    --hash=sha256:" not in pin] == []


def test_libraries_have_a_row_with_reason() -> None:
    described = rows()
    assert {name: described[name][2] for name in asked_for("dev")} == {
        name: dependencies.reasons()[name] for name in asked_for("dev")
    }


def test_dependencies_page_matches_installed_libraries() -> None:
    """What is installed in another version than is locked has no say; sizes differ between platforms."""
    shipped = dependencies.direct(
        "runtime", "reporter", "collector", "notices", "triage", "dask", "otlp", "mcp"
    )
    found = [*shipped, *dependencies.pulled_in(shipped), *dependencies.direct("test", "check", "dev")]
    pins, described = dependencies.locked(), rows()
    as_locked = {each.name: list(each.cells()[:-1]) for each in found if pins.get(each.name) == each.version}
    why = dependencies.HEAD.index("why")
    for name, cells in as_locked.items():
        same = described[name][:why] + described[name][why + 1 : -1] == cells[:why] + cells[why + 1 :]
        assert same, f"{described[name]} is {cells}: make dependencies"


def test_licences_of_libraries_are_allowed() -> None:
    shipped = dependencies.direct(
        "runtime", "reporter", "collector", "notices", "triage", "dask", "otlp", "mcp"
    )
    for each in [*shipped, *dependencies.pulled_in(shipped)]:
        if MAY_BE_INSTALLED_BESIDE.get(each.name) == each.licence:
            continue
        assert set(re.findall(r"[\w.-]+", each.licence)) - {"AND", "OR"} <= MAY_BE_INSTALLED_WITH_OURS, each


@pytest.mark.parametrize(
    ("output", "its_status", "status", "message"),
    [
        ("No known vulnerabilities found", 0, 0, "nothing is known against any of them"),
        ("Found 1 known vulnerability in 1 package\nclick 8.2 GHSA-1", 1, 1, "click 8.2 GHSA-1"),
        ("ERROR:click: Dependency not found", 1, 2, "not judged, the service pypi has no answer here: ERROR"),
    ],
    ids=["clean", "known", "no answer"],
)
def test_audit_fails_for_an_unchecked_library(
    tmp_path: Path, output: str, its_status: int, status: int, message: str
) -> None:
    for directory in (".ci", "requirements"):
        shutil.copytree(REPOSITORY / directory, tmp_path / directory)
    service = tmp_path / ".cache/upkeep/bin/pip-audit"
    service.parent.mkdir(parents=True)
    service.write_text(f"#!/bin/sh\nprintf '%s\\n' '{output}'\nexit {its_status}\n")
    service.chmod(0o755)
    done = subprocess.run([tmp_path / ".ci/audit"], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert message in done.stdout
