"""The verdict above the login prompt."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from service_record.reporter.log import format_issue, write_issue
from service_record.reporter.paths import Places


def test_issue_has_verdict_advice_and_an_empty_line() -> None:
    assert format_issue("failed: bootkube in stage pull: no such image", "Log in: service-record show") == (
        b"service-record: failed: bootkube in stage pull: no such image\nLog in: service-record show\n\n"
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (r"failed: \4{eth0} \n \e{red}", rb"failed: \\4{eth0} \\n \\e{red}"),
        ("failed: \x1b[2J\x07", rb"failed: \\x1b[2J\\x07"),
        ("failed: first\nsecond\r\nthird", rb"failed: first\\x0asecond\\x0d\\x0athird"),
        ("failed: größe ✗ \u202e", rb"failed: gr??e ? \\u202e"),
    ],
    ids=["escapes of agetty", "escapes of terminals", "line breaks", "not ASCII"],
)
def test_escapes_for_agetty_and_terminals_are_escaped(message: str, expected: bytes) -> None:
    assert format_issue(message) == b"service-record: " + expected + b"\n\n"


def test_long_verdict_keeps_beginning_and_end_in_two_rows() -> None:
    first, second, last = format_issue(f"failed: {'word ' * 100}no such image").splitlines()
    assert first.startswith(b"service-record: failed: word word")
    assert second.endswith(b"word no such image")
    assert 70 < max(len(first), len(second)) <= 79
    assert last == b""


def test_word_longer_than_a_row_is_broken() -> None:
    rows = format_issue(f"failed: {'x' * 500}").splitlines()
    assert len(rows) == 3
    assert max(map(len, rows)) <= 79


def test_issue_is_written_only_if_its_text_changes(tmp_path: Path) -> None:
    places = Places(tmp_path)
    write_issue(places, b"one\n")
    before = places.issue.stat()
    write_issue(places, b"one\n")
    assert places.issue.stat().st_ino == before.st_ino
    write_issue(places, b"two\n")
    assert places.issue.read_bytes() == b"two\n"
    assert places.issue.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in places.issue.parent.iterdir()] == ["80-service-record.issue"]


def test_agetty_shows_the_verdict_unchanged(tmp_path: Path) -> None:
    if shutil.which("agetty") is None or os.geteuid() != 0:
        pytest.skip("no agetty, or not root")
    verdict = r"failed: \n \4 \\ C:\dir \e{red}"
    file = tmp_path / "issue"
    file.write_bytes(format_issue(verdict))
    ours, its = pty.openpty()
    try:
        subprocess.run(
            ["agetty", "--show-issue", "--issue-file", file], stdin=its, stdout=its, stderr=its, check=True
        )
        shown = os.read(ours, 4096)
    finally:
        os.close(ours)
        os.close(its)
    assert shown.decode().splitlines()[0] == f"service-record: {verdict}"
