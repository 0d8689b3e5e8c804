"""No regular expression uses syntax that Debian 12's own Python (3.11.2) matches wrongly.

Its `re` misses matches of possessive quantifiers and atomic groups (CPython gh-106052). Other versions match
them correctly, so nothing but this test would notice under those.
"""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.machine import REPOSITORY

NOT_SYNTAX = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An escape or a character class, in which `+` and `?` are ordinary characters."""
MISMATCHED = re.compile(r"[*+?}]\+|\(\?>")
FUNCTIONS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"}
RECORD = """
import importlib, json, pkgutil, re, sys
compile, found = re.compile, []
def record(pattern, flags=0):
    module = sys._getframe(1).f_globals.get("__name__", "")
    if module.startswith(("service_record", sys.argv[1])):
        text = getattr(pattern, "pattern", pattern)
        found.append((module, text.decode("latin-1") if isinstance(text, bytes) else text))
    return compile(pattern, flags)
re.compile = record
importlib.import_module(sys.argv[1])
package = importlib.import_module("service_record")
for module in pkgutil.walk_packages(package.__path__, "service_record."):
    if not module.name.endswith(("__main__", ".migrations.env")):  # programs: an import runs them
        importlib.import_module(module.name)
json.dump(found, sys.stdout)
"""


def is_mismatched(pattern: str) -> bool:
    return MISMATCHED.search(NOT_SYNTAX.sub("x", pattern)) is not None


def literal_patterns(source: str) -> Iterator[str]:
    """Yield every text in the arguments of a call of a function of `re`."""
    for call in ast.walk(ast.parse(source)):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and (call.func.value.id, call.func.attr in FUNCTIONS) == ("re", True)
        ):
            for part in (part for argument in call.args for part in ast.walk(argument)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
                    yield part.value if isinstance(part.value, str) else part.value.decode("latin-1")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        *[(pattern, True) for pattern in ("a++", "a*+", "(?:a|b)?+", "a{1,2}+", r"\++ +\d++", "(?>a)b")],
        *[(pattern, False) for pattern in (r"\++", "[*+?]+", r"[]*+]", r"a+\+", "(?:a+)+", r"[^\]*+]+b")],
    ],
)
def test_syntax_is_recognised(pattern: str, expected: bool) -> None:
    assert is_mismatched(pattern) is expected


@pytest.mark.slow
def test_no_module_compiles_mismatched_syntax(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text('import re\nBAD = re.compile("a" + "*+")\n')
    recorded = subprocess.run(
        [sys.executable, "-c", RECORD, "planted"],
        env={"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"},
        capture_output=True,
        text=True,
        check=True,
    )
    patterns = json.loads(recorded.stdout)

    assert len({module for module, _ in patterns}) > 10
    assert [module for module, pattern in patterns if is_mismatched(pattern)] == ["planted"]


@pytest.mark.slow
def test_no_source_file_has_mismatched_syntax() -> None:
    planted = "def f(x):\n    return re.sub(rf'{x}(?:a*+)', '', x)\n"
    assert any(map(is_mismatched, literal_patterns(planted)))

    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    sources = listed.stdout.split()
    own = Path(__file__).relative_to(REPOSITORY).as_posix()
    assert sources
    assert [
        (source, pattern)
        for source in sources
        if source != own and (REPOSITORY / source).exists()
        for pattern in literal_patterns((REPOSITORY / source).read_text())
        if is_mismatched(pattern)
    ] == []
