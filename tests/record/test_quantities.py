"""Sizes and durations as people write them."""

import pytest

from service_record.record.quantities import parse_duration, parse_size


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
def test_size_can_be_written_in_many_ways(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1e3", "5 MM", "5 iB", "1T", "٣"])
def test_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("1h 5m", 3900), ("0.5", 0.5)],
)
def test_duration_can_be_written_in_many_ways(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5m", "5 minutes", "1e3", "5mm", "90 5m", "٣m"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid duration"):
        parse_duration(text)
