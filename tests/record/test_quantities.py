"""Sizes as people write them; `diagnosis/test_budget.py` has durations."""

import pytest

from service_record.record.quantities import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        (" 65536 ", 65536),
        ("7B", 7),
        ("1.5k", 1536),
        ("512 KiB", 512 << 10),
        ("12M", 12 << 20),
        ("1G", 1 << 30),
        ("1gib", 1 << 30),
    ],
)
def test_a_size_can_be_written_in_many_ways(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1e3", "5 MM", "5 iB", "1T", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid size"):
        parse_size(text)
