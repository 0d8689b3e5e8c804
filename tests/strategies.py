"""Hypothesis strategies: entries with random fields, and bytes of record files."""

from typing import Any

from hypothesis import strategies as st

from service_record.record.entry import Entry, Phase, Result, UnknownFields
from tests.builders import BOOT_ID, array, timestamp

TEXTS = st.text(min_size=1, max_size=300)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    phase = draw(st.sampled_from(Phase))
    return Entry(
        timestamp=timestamp(draw(st.integers(0, 10**9)) / 1000),
        phase=phase,
        pre_command=draw(optional(TEXTS)),
        stage=draw(optional(TEXTS)),
        result=draw(optional(st.sampled_from(Result))) if phase.is_end else None,
        error_line=draw(optional(TEXTS)),
        error_message=draw(optional(st.text(min_size=1, max_size=6000))),
        exit_code=draw(optional(st.integers(0, 255))),
        signal=draw(optional(st.sampled_from(["TERM", "unknown"]))),
        command=draw(optional(TEXTS)),
        stack=tuple(draw(st.lists(TEXTS, max_size=20))),
        error_line_approximate=draw(st.booleans()),
        boot_id=draw(optional(st.just(BOOT_ID))),
        pid=draw(optional(st.integers(1, 2**22))),
        uptime=draw(optional(st.floats(0, 1e9))),
        dropped=draw(st.integers(0, 1000)),
        extra=UnknownFields(
            draw(st.dictionaries(st.text(min_size=1).map(lambda name: f"x-{name}"), JSON, max_size=3))
        ),
    )


_FRAGMENTS = st.one_of(
    st.binary(max_size=20),
    st.text('{}[]",:\\\n\0 a', max_size=40).map(str.encode),
    st.sampled_from(
        [b"1e999", b"9" * 400, b"[" * 9000 + b"]" * 9000, b'"\\ud800"', b"\xff", b"null", b"[]", b"{}"]
    ).map(lambda value: b'{"timestamp":"2026-11-21T01:05:10Z","phase":"service start","x":%s}\n' % value),
    st.sampled_from([b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-14:00"]).map(
        lambda time: b'{"timestamp":"%s","phase":"service start"},\n' % time
    ),
)
_WRITTEN = st.one_of(
    entries().map(Entry.to_line), st.lists(entries(), max_size=2).map(lambda few: array(*few))
)


@st.composite
def _truncate(draw: st.DrawFn) -> bytes:
    written = draw(_WRITTEN)
    return written[draw(st.integers(0, len(written))) :][: draw(st.integers(0, len(written)))]


RECORD_BYTES = st.lists(_FRAGMENTS | _WRITTEN | _truncate(), max_size=6).map(b"".join)
"""The bytes of record files: valid ones in both layouts, truncated ones, and invalid bytes."""
