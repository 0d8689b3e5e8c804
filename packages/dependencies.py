"""`make dependencies`: what is installed with the command, and what it is developed with.

It goes into docs/project/dependencies.md. Reasons are the comments in pyproject.toml; versions, licences,
sizes and what each pulls in are those of what is installed here, as requirements/dev.txt has it.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.table import aligned, replace_between

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/project/dependencies.md"
LOCK: Final = ROOT / "requirements/dev.txt"
_REASON: Final = re.compile(r'^ *"([^"]+)",? *# *(.+)$', re.MULTILINE)
_PIN: Final = re.compile(r"^([a-z0-9.-]+)==([^ ;\\]+)", re.MULTILINE)
_CLASSIFIER: Final = "License :: OSI Approved :: "
_LICENCES: Final = {
    "MIT License": "MIT",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "GNU General Public License (GPL)": "GPL",
}
"""Licences in the words of older metadata, each with its SPDX identifier."""

_ELSEWHERE: Final = {"demo", "mutants", "site", "standalone", "upkeep"}
"""Parts of pyproject.toml that LOCK does not have."""

HEAD: Final = ("library", "version", "why", "pulls in", "licence", "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A library that this project names, or that one of those pulls in."""

    name: str
    version: str
    licence: str
    size: int
    """Bytes of its files as installed, without compiled bytecode."""
    needs: tuple[str, ...]
    why: str = ""

    def cells(self) -> tuple[str, ...]:
        needs = ", ".join(self.needs)
        return self.name, self.version, self.why, needs, self.licence, f"{self.size / 1e6:.2f} MB"


@cache
def project() -> dict[str, list[Requirement]]:
    """Return the requirements in pyproject.toml: `runtime`, each extra and each group, without includes."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = {"runtime": document["project"]["dependencies"], **document["project"]["optional-dependencies"]}
    parts |= document["dependency-groups"]
    return {
        part: [Requirement(each) for each in requirements if isinstance(each, str)]
        for part, requirements in parts.items()
    }


@cache
def reasons() -> dict[str, str]:
    """Return the reason behind each requirement in pyproject.toml, by name; the first of several."""
    comments = _REASON.findall((ROOT / "pyproject.toml").read_text())
    return {canonicalize_name(Requirement(text).name): why for text, why in reversed(comments)}


def locked(path: Path = LOCK) -> dict[str, str]:
    """Return the version that a lock has of each library."""
    return dict(_PIN.findall(path.read_text()))


def licence(of: Distribution) -> str:
    """Return its licence as an SPDX expression where its metadata allows it, or else the metadata's words."""
    metadata = of.metadata
    classifiers = metadata.get_all("Classifier") or []
    classified = [each.removeprefix(_CLASSIFIER) for each in classifiers if each.startswith(_CLASSIFIER)]
    if expressions := metadata.get_all("License-Expression"):
        return str(expressions[0])
    names = classified or metadata.get_all("License") or [of.read_text("licenses/LICENSE") or "unknown"]
    return " AND ".join(_LICENCES.get(name, name) for name in (each.partition("\n")[0] for each in names))


def installed(name: str) -> Dependency | None:
    """Return the installed library of that name; None for one that this Python does not need."""
    try:
        of = distribution(name)
    except PackageNotFoundError:
        return None
    requirements = (Requirement(each) for each in of.requires or ())
    needs = {each.name for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})}
    files = [file.locate() for file in of.files or () if file.suffix != ".pyc"]
    return Dependency(
        name=canonicalize_name(name),
        version=of.version,
        licence=licence(of),
        size=sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file()),
        needs=tuple(sorted(map(canonicalize_name, needs))),
        why=reasons().get(canonicalize_name(name), ""),
    )


def direct(*parts: str) -> list[Dependency]:
    """Return the installed libraries that these parts of pyproject.toml name, each once, in order of name."""
    names = {canonicalize_name(each.name) for part in parts for each in project()[part]}
    return [library for name in sorted(names) if (library := installed(name))]


def pulled_in(roots: Sequence[Dependency]) -> list[Dependency]:
    """Return the libraries that those pull in and that nothing names, in order of name."""
    named = {each.name for each in roots}
    libraries: dict[str, Dependency] = {}
    waiting = [name for each in roots for name in each.needs]
    while waiting:
        name = waiting.pop()
        if name not in named | libraries.keys() and (dependency := installed(name)):
            libraries[name] = dependency
            waiting += dependency.needs
    needing = [*roots, *libraries.values()]
    return [
        replace(libraries[name], why=f"for {', '.join(each.name for each in needing if name in each.needs)}")
        for name in sorted(libraries)
    ]


def tree(names: Sequence[str], depth: int = 1) -> Iterator[str]:
    """Yield a line for each library, indented below the one that needs it."""
    for name in names:
        if library := installed(name):
            yield f"{'    ' * depth}{name} {library.version}"
            yield from tree(library.needs, depth + 1)


def sections() -> dict[str, str]:
    """Return the generated parts of the page, by the name of their place in it."""
    runtime, reporter, collector = direct("runtime"), direct("reporter"), direct("collector", "notices")
    desk = direct("triage", "dask", "mcp", "otlp")
    development = direct("test", "check", "dev")
    shipped = [*runtime, *reporter]
    others = pulled_in(shipped)
    covered = {each.name for each in [*shipped, *others]}
    serving = [each for each in [*collector, *pulled_in(collector)] if each.name not in covered]
    covered |= {each.name for each in [*serving, *direct("test", "check", "dev")]} - {
        each.name for each in desk
    }
    asking = [each for each in [*desk, *pulled_in(desk)] if each.name not in covered]
    names = [each.name for each in runtime]
    lines = ["service-record", *tree(names), "service-record[reporter], besides"]
    lines += tree([each.name for each in reporter])
    count, size = len(shipped) + len(others), sum(each.size for each in [*shipped, *others])
    on_page = {each.name for each in [*shipped, *serving, *asking]}
    more = sum(each.size for each in serving)
    at_desks = sum(each.size for each in asking)
    return {
        "runtime": table(runtime),
        "reporter": table(reporter),
        "pulled in": table(others),
        "collector": f"{table(serving)}\n\n{len(serving)} libraries more, {more / 1e6:.0f} MB.",
        "desk": f"{table(asking)}\n\n{len(asking)} libraries more, {at_desks / 1e6:.0f} MB.",
        "tree": "\n".join(["```", *lines, "```", "", f"{count} libraries, {size / 1e6:.0f} MB."]),
        "development": table(each for each in development if each.name not in on_page),
    }


def table(rows: Iterable[Dependency]) -> str:
    return aligned([HEAD, *(row.cells() for row in rows)])


def main() -> int:
    """Write the page. Return the exit status: 1 when something is not installed as locked."""
    everything = direct(*(part for part in project() if part not in _ELSEWHERE))
    pins = locked()
    wrong = [each for each in [*everything, *pulled_in(everything)] if pins.get(each.name) != each.version]
    if wrong:
        differences = ", ".join(
            f"{each.name} {each.version} instead of {pins.get(each.name)}" for each in wrong
        )
        print(f"{LOCK.relative_to(ROOT)}: installed here is {differences}: run .ci/setup", file=sys.stderr)
        return 1
    for name, text in sections().items():
        replace_between(PAGE, name, text)
    print(sections()["tree"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
