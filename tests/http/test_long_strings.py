"""JSON that is read in pieces loses its long strings, and nothing else."""

import json
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from service_record.http.long_strings import StringShortener

LONGEST: Final = 12

texts = st.text(st.sampled_from('ab"\\\\\n\u00e9{}[]:,'), max_size=40)
documents = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)


def without_long_strings(value: object) -> object:
    """Return the document with each string emptied that takes more than LONGEST bytes in JSON."""
    if isinstance(value, str):
        return value if len(json.dumps(value)) - 2 <= LONGEST else ""
    if isinstance(value, list):
        return [without_long_strings(item) for item in value]
    if isinstance(value, dict):
        return {without_long_strings(key): without_long_strings(item) for key, item in value.items()}
    return value


@given(documents, st.integers(1, 7))
def test_document_keeps_its_shape_and_short_strings(document: object, piece: int) -> None:
    data = json.dumps(document).encode()
    shortener = StringShortener(LONGEST)
    pieces = [shortener.feed(data[at : at + piece]) for at in range(0, len(data), piece)]
    out = b"".join([*pieces, shortener.finish()])
    assert json.loads(out) == without_long_strings(document)


@given(st.binary(max_size=60).filter(lambda data: data.count(b'"') == 0))
def test_text_without_quotes_is_unchanged(data: bytes) -> None:
    shortener = StringShortener(LONGEST)
    assert shortener.feed(data) + shortener.finish() == data
