"""Cases that the redaction does not pass yet."""

from pathlib import Path
from typing import Any, Final

import pytest

PENDING: Final = frozenset(Path(__file__).with_name("pending.txt").read_text().splitlines())
"""Names of cases that are expected to fail. Strict: delete a name as soon as its case passes."""


def case(name: str, *values: object, is_slow: bool = False) -> Any:
    """Return a parameter set whose test is expected to fail while its name is pending."""
    marks: list[pytest.MarkDecorator] = [pytest.mark.slow] if is_slow else []
    if name in PENDING:
        marks.append(pytest.mark.xfail(strict=True, reason="the redaction does not pass this yet"))
    return pytest.param(*values, id=name, marks=marks)
