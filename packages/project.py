"""Maintainer, URL and licences for the packages, from pyproject.toml and the installed libraries."""

import tomllib
from pathlib import Path
from typing import Any, Final

from packages import dependencies
from packages.standalone.__main__ import LEFT_OUT

_PROJECT: Final = Path(__file__).parent.parent / "pyproject.toml"


def maintainer() -> str:
    """Return `NAME <ADDRESS>`."""
    author = _project()["authors"][0]
    return f"{author['name']} <{author['email']}>"


def homepage() -> str:
    """Return the URL of the project, or an empty string."""
    return str(_project().get("urls", {}).get("Homepage", ""))


def _project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(_PROJECT.read_text())["project"]
    return table


def licences() -> list[str]:
    """Return `NAME VERSION (LICENCE)` for each Python library in the standalone executable."""
    shipped = dependencies.direct("runtime", "reporter")
    others = dependencies.pulled_in(shipped)
    everything = [each for each in (*shipped, *others) if each.name not in LEFT_OUT]
    return [
        f"{each.name} {each.version} ({each.licence})"
        for each in sorted(everything, key=lambda each: each.name)
    ]
