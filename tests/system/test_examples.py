"""The hosts of docs/examples, run again, have the same verdict as their stored records."""

import json
from pathlib import Path

import pytest

from examples.__main__ import make
from examples.scenes import EXAMPLES
from tests.golden.outputs import output, sources

TOO_LONG = {"stuck"}
SLOW = {"restart-loop"}


def read_verdict(source: str) -> dict[str, object]:
    """Return the verdict without the parts that differ between runs."""
    found = json.loads(output("analyze", "--output", "json", "--from", source))
    root = found.get("root", {})
    return {
        "verdict": found["verdict"],
        "where": (root.get("service"), root.get("stage"), root.get("facts", {}).get("location")),
        "cause": root.get("cause", {}).get("name"),
        "loop": root.get("loop", {}).get("count"),
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in EXAMPLES
        if name not in TOO_LONG
    ],
)
def test_remade_example_has_the_same_cause(name: str, tmp_path: Path) -> None:
    make(name, tmp_path)

    (made,) = tmp_path.iterdir()
    assert read_verdict(str(made)) == read_verdict(sources()[name])
