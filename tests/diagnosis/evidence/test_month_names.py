"""Times of journals in other languages: journalctl prints the month as the host's locale abbreviates it."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from packages.months import LOCALES, PLACE
from service_record.diagnosis.evidence.log_lines import JOURNAL, Era, LogStream, log_line
from service_record.record.recognition import FileForm, recognise
from tests.command_line import service_record
from tests.programs import skip_without

ERA = Era(last=datetime(2026, 12, 31, tzinfo=UTC))


def time_of(stamp: str) -> datetime | None:
    line = f"{stamp} node1 systemd[1]: Starting a.service - A..."
    assert recognise(f"{line}\n".encode()) is FileForm.JOURNAL
    found = log_line(LogStream("journal.txt", JOURNAL), 1, line.encode(), ERA)
    assert (found.name, found.pid) == ("systemd", 1)
    return found.time


@pytest.mark.parametrize(
    ("stamp", "month"),
    [
        ("ноя 20 12:02:27", 11),
        ("Okt 20 12:02:27", 10),
        ("févr. 20 12:02:27.123456", 2),
        ("11月 20 12:02:27", 11),
        (" 4月 20 12:02:27", 4),
        ("4月 20 12:02:27", 4),  # as text copied without its margin
        ("de gen. 20 12:02:27", 1),
        ("Thg 12 20 12:02:27", 12),
        ("out 20 12:02:27", 10),
    ],
)
def test_month_in_another_language_is_read(stamp: str, month: int) -> None:
    time = time_of(stamp)
    assert time is not None
    assert (time.month, time.day, time.hour) == (month, 20, 12)


@pytest.mark.parametrize("word", ["lis", "Foo", "Wed Nov"])
def test_ambiguous_or_unknown_month_gives_no_time(word: str) -> None:
    assert time_of(f"{word} 20 12:02:27") is None


def test_runs_are_read_from_a_journal_in_russian(tmp_path: Path) -> None:
    path = tmp_path / "journal.txt"
    path.write_text(
        "ноя 20 12:02:27 node1 systemd[1]: Starting web.service - Web...\n"
        "ноя 20 12:02:28 node1 web[7]: нет такого файла\n"
        "ноя 20 12:02:29 node1 systemd[1]: web.service: Main process exited, code=exited, status=3/NOTIMPL\n"
        "ноя 20 12:02:29 node1 systemd[1]: web.service: Failed with result 'exit-code'.\n"
    )
    answer = service_record("show", path)
    assert answer.status == 0
    assert "exit 3 after 2s" in answer.out
    assert "-11-20 12:02:29Z" in answer.out
    assert "нет такого файла" in answer.out


@pytest.mark.parametrize(
    "locale",
    [
        *("ar_EG", "cs_CZ", "de_DE", "fr_FR", "hu_HU", "ja_JP", "ko_KR", "mn_MN", "pl_PL", "pt_BR", "ru_RU"),
        *("th_TH", "vi_VN", "zh_CN"),
    ],
)
@pytest.mark.slow
def test_months_of_the_system_are_read(locale: str, tmp_path: Path) -> None:
    """The C library formats the times, as it does for journalctl."""
    skip_without("localedef")
    if not (LOCALES / locale).exists():
        pytest.skip(f"no source of {locale}: the package locales is not installed")
    subprocess.run(
        ["localedef", "-i", locale, "-f", "UTF-8", tmp_path / f"{locale}.UTF-8"],
        check=True,
        capture_output=True,
    )
    environ = os.environ | {"LOCPATH": str(tmp_path), "LC_ALL": f"{locale}.UTF-8", "TZ": "UTC"}
    ambiguous = {("pl_PL", 7), ("pl_PL", 11), ("cs_CZ", 8), ("cs_CZ", 11)}
    for month in range(1, 13):
        command = ["date", f"--date=2026-{month:02}-05 12:02:27", "+%b %d %H:%M:%S"]
        stamp = subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout
        time = time_of(stamp.rstrip("\n"))
        assert (None if time is None else time.month) == (None if (locale, month) in ambiguous else month), (
            stamp
        )


def test_file_has_each_name_once() -> None:
    names = [line.rpartition(" ")[0] for line in PLACE.read_text().splitlines()]
    assert len(names) == len(set(names))
