"""Draw JSON documents of the expected shape with unexpected values in them."""

import copy
import json
from typing import Any, Final

from hypothesis import strategies as st

_DEEP: Final = "nested deep"
_LONG: Final = "a number of many digits"
_ODD: Final[list[Any]] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, 0.5),
    *(float("nan"), float("inf"), float("-inf"), _DEEP, _LONG),
    *("", " ", "0", "nan", "x" * 300, "a\nb", "\x00", "\x1b[2J", "\u202egnp", "\ud800", "\ufeff"),
    *("<script>", "1e999", "../..", "2026-11-21T01:05:10Z", "9999-12-31T23:59:59.9+23:59"),
    *([], {}, [[]], {"": ""}, [None], [{}], {"a": {"b": []}}),
]
"""Values that replace an expected value."""

_RAW: Final = {_DEEP: "[" * 3000 + "]" * 3000, _LONG: "9" * 5000}
"""Placeholder -> JSON text that no encoder would write."""


def odd_values() -> st.SearchStrategy[Any]:
    """Draw unusual values."""
    return st.sampled_from(_ODD).map(copy.deepcopy) | st.text(max_size=20) | st.integers() | st.floats()


@st.composite
def odd_json(draw: st.DrawFn, *documents: Any) -> bytes:
    """Draw one of the documents as JSON, with up to three values replaced, removed or repeated."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(0, 3))):
        document = _change(draw, document)
    return _write_json(document)


def _change(draw: st.DrawFn, value: Any) -> Any:
    """Return the value with a replacement for it, or for a value inside it."""
    if not isinstance(value, dict | list) or not value or not draw(st.integers(0, 3)):
        return draw(odd_values())
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    place = draw(st.sampled_from(places))
    match draw(st.integers(0, 7)):
        case 0:
            del value[place]
        case 1 if isinstance(value, list):
            value *= draw(st.integers(2, 300))
        case _:
            value[place] = _change(draw, value[place])
    return value


def _write_json(document: Any) -> bytes:
    text = json.dumps(document)
    for word, raw in _RAW.items():
        text = text.replace(f'"{word}"', raw)
    return text.encode()
