"""Prose about secrets stays: errors, prompts and names of objects are what a diagnosis reads."""

import json
from pathlib import Path
from typing import Final

import pytest

from service_record.redaction import Rules
from testing.ordinary_logs import KINDS, ordinary_lines
from tests.cause_cases import cause_cases
from tests.redaction.measure import redact
from tests.redaction.pending import case

RULES: Final = Rules()
LINES: Final = [
    line
    for line in Path(__file__).with_name("prose.txt").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("line", [case(f"prose, {line}", line) for line in LINES])
def test_prose_stays(line: str) -> None:
    for text in (
        line,
        f"Nov 21 00:54:19 boot0 app[2213]: {line}",
        f"2026-11-21T00:54:19.123456789+00:00 stderr F {line}",
        f"mount-nas.sh failed: {line}",
        json.dumps({"errorMessage": f"it began\n{line}", "result": "failure"}),
        json.dumps({"errorMessage": f"{line}\nit ended", "result": "failure"}),
        json.dumps({"msg": line, "pid": 1}, separators=(",", ":")),
        f"time=2026-11-21T00:54:19Z level=error msg={json.dumps(line)} id=7",
    ):
        assert redact(text.encode(), RULES).decode() == text


@pytest.mark.parametrize("kind", [case(f"ordinary, {kind}", kind) for kind in KINDS])
def test_ordinary_log_stays(kind: str) -> None:
    altered = [line for line in ordinary_lines(kind, 400) if redact(line.encode(), RULES).decode() != line]
    assert altered == []


CAUSES: Final = list(cause_cases())
AROUND: Final = {
    "alone": "{}",
    "errno before": "cat: /etc/passwd: Permission denied\n{}",
    "prompt behind": "{}\nEnter password:",
    "behind password": "failed to read password: {}",
    "behind token": "error reading token: {}",
    "behind a path": "/run/secrets/db-password: {}",
    "behind secret": "secret: {}",
}
"""Prose before and behind a message."""


@pytest.mark.parametrize("around", [case(f"causes, {name}", text) for name, text in AROUND.items()])
def test_messages_of_known_causes_stay(around: str) -> None:
    """`analyze` finds the same cause in a bundle as on its host."""
    altered = []
    for each in CAUSES:
        texts = list(each.files.values())
        if "own" in each.values:
            texts.append(json.dumps({"errorMessage": around.format(each.values["own"]), "result": "failure"}))
        altered += [text for text in texts if redact(text.encode(), RULES).decode() != text]
    assert altered == []
