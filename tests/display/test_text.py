"""Texts, times and durations as people read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from service_record.display.text import (
    ASCII,
    Clock,
    Glyphs,
    Ink,
    cell_len,
    choose_glyphs,
    cut,
    cut_around,
    cut_within,
    duration,
    moment,
    render_lines,
    set_cell_size,
    split_lines,
    utc,
    wrap,
)
from service_record.record.visible import visible

NOON = datetime(2026, 11, 21, 12, 0, 0, 250_000, UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("bell\x07", r"bell\x07"),
        ("a\nb", r"a\x0ab"),
        ("\x9b31m", r"\x9b31m"),
        ("\x7f", r"\x7f"),
        ("evil\u202egpj", r"evil\u202egpj"),
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\U000e0041"),
        ("a\tb", "a    b"),
        ("žluťoučký 完了 …", "žluťoučký 完了 …"),
    ],
    ids=[
        *("escape", "bell", "newline", "C1", "delete", "override", "isolate", "surrogate", "tag"),
        *("tab", "plain"),
    ],
)
def test_what_acts_on_a_terminal_is_written_out(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_a_message_is_split_at_its_newlines_only() -> None:
    assert split_lines("one\r\ntwo\u2028half\n") == ["one", r"two\u2028half"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.004, "0.00s"),
        (0.5, "0.50s"),
        (9.96, "10.0s"),
        (59.96, "1m 0s"),
        (123, "2m 3s"),
        (3600, "1h 0m"),
        (86_399, "23h 59m"),
        (100_000, "1d 3h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_times_are_shown_by_the_clock_asked_for() -> None:
    later = NOON + timedelta(minutes=3)
    assert moment(NOON, Clock.UTC, later) == "2026-11-21 12:00:00Z"
    assert moment(NOON, Clock.RELATIVE, later) == "3m 0s ago"
    assert moment(later, Clock.RELATIVE, NOON) == "in 3m 0s"
    local = moment(NOON, Clock.LOCAL, later)
    assert datetime.fromisoformat(local) == NOON.replace(microsecond=0)


def test_machine_times_are_utc_whatever_the_offset() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert utc(there) == "2026-11-21T12:00:00.250Z"


@pytest.mark.parametrize(
    "text", ["word " * 20, "x" * 95, "完了" * 30], ids=["words", "one word", "wide cells"]
)
def test_wrapping_keeps_to_the_width_and_loses_nothing(text: str) -> None:
    rows = wrap(text, 20)
    assert all(len(row) <= 20 and len(row.encode()) <= 60 for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_text_in_other_scripts_is_wrapped_between_words() -> None:
    assert wrap("größer als erlaubt…", 12) == ("größer als", "erlaubt…")


@pytest.mark.parametrize("text", ["x" * 99, "完了" * 30, "é完" * 30])
def test_text_cut_within_keeps_both_ends(text: str) -> None:
    shown = cut_within(f"Error: {text}: no such host", 40, "…")
    assert shown.startswith("Error: ")
    assert shown.endswith(f"{text[-2:]}: no such host")
    assert shown.count("…") == 1
    assert 38 <= cell_len(shown) <= 40


def test_a_text_that_fits_is_not_cut_within() -> None:
    assert cut_within("abcdef", 6, "…") == "abcdef"


def test_a_cut_text_is_marked_and_fits() -> None:
    assert cut("abcdef", 6, "…") == "abcdef"
    assert cut("abcdefg", 6, "…") == "abcde…"
    assert cut("abcdefg", 6, "...") == "abc..."


def test_glyphs_are_ascii_in_a_poor_encoding() -> None:
    assert choose_glyphs("utf-8") == Glyphs()
    assert choose_glyphs("ascii") == choose_glyphs("latin-1") == choose_glyphs("no such") == ASCII


def test_painted_line_differs_only_in_colour() -> None:
    line = (("✗ ", Ink.BAD), ("job", Ink.STRONG), (" failed", Ink.PLAIN))
    (plain,), (colored,) = render_lines([line], color=False), render_lines([line], color=True)
    assert plain == "✗ job failed\n"
    assert colored == "\x1b[1;31m✗ \x1b[0m\x1b[1mjob\x1b[0m failed\n"


def test_cut_line_keeps_the_part_that_tells() -> None:
    text = "time=7 " + "a" * 100 + " level=info rate=0.3 is slow " + "z" * 200
    assert cut_around(text, "rate=0.3", 400, "~") == text
    shown = cut_around(text, "rate=0.3", 60, "~")
    assert "rate=0.3" in shown
    assert (len(shown), shown[0], shown[-1]) == (60, "~", "~")
    # At either end, and where the part is unknown or too long, as much as there is room for.
    assert cut_around(text, "time=7", 60, "~").startswith("time=7")
    assert cut_around(text, "elsewhere", 60, "~") == cut_within(text, 60, "~")
    assert len(cut_around(text, text[50:], 60, "~")) == 60


def test_digest_is_cut_before_other_words() -> None:
    text = f"Error: reading image@sha256:{'5c437aa0' * 8} from mirror.lab.example.net: connection refused"
    assert cut_within(text, 90, "…") == (
        "Error: reading image@sha256:5c437aa0… from mirror.lab.example.net: connection refused"
    )
    assert "5c437aa0…" in cut_around(text, f"sha256:{'5c437aa0' * 8}", 40, "…")
    assert cut_within(text, 200, "…") == text


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("ab", 4, "ab  "),
        ("abcd", 2, "ab"),
        ("漢字", 3, "漢 "),
        ("漢", 1, " "),
        ("e\u0301x", 1, "e\u0301"),
        ("a", 0, ""),
    ],
)
def test_text_gets_exactly_the_cells(text: str, width: int, expected: str) -> None:
    assert set_cell_size(text, width) == expected


def test_colour_is_written_as_ansi_codes() -> None:
    line = (("✗", Ink.BAD), (" job", Ink.PLAIN), ("", Ink.FAINT))
    assert list(render_lines([line], color=True)) == ["\033[1;31m✗\033[0m job\n"]
