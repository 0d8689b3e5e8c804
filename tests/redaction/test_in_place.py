"""Masking that leaves every line as long as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.redaction import Rules, Secret, masked_in_place

WORD = b"hunter2-and-more-of-it"
RULES = Rules((Secret("pull-secret", WORD), Secret("given", b"p4ssw0rd")))


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        (b"nothing to hide\n", b"nothing to hide\n"),
        (b"it is " + WORD + WORD + b" here\n", None),
        (b'{"errorMessage": "login p4ssw0rd refused"}\n', b'{"errorMessage": "login *** refused"}     \n'),
        (b"p4ssw0rd\n", b"***     \n"),
    ],
)
def test_masked_line_keeps_its_length(line: bytes, masked: bytes | None) -> None:
    found = masked_in_place(line, RULES)

    assert masked in {None, found}
    assert len(found) == len(line)
    assert WORD not in found
    assert b"p4ssw0rd" not in found


@given(st.lists(st.sampled_from([b"a", WORD, b"p4ssw0rd", b"\n", b" ", b'"', b"password=x"]), max_size=30))
def test_masked_text_keeps_line_lengths(pieces: list[bytes]) -> None:
    text = b"".join(pieces)

    found = masked_in_place(text, RULES)

    assert [len(line) for line in found.split(b"\n")] == [len(line) for line in text.split(b"\n")]
    assert b"p4ssw0rd" not in found.split()
