"""What a round says: to the journal with priorities, to people without."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from service_record.reporter.log import VERDICT_ID, Log
from tests.programs import REPOSITORY

SAYING = """
import os
from service_record.reporter.log import open_log
say = open_log(os.environ)
say.error("first"); say.warning("second\\x1b[2J\\nline"); say.notice("third"); say.info("fourth")
"""


def said(directory: Path, stream: str | None) -> str:
    """Return a process's output to a file; `stream` is systemd's name of it, in which FILE stands for the
    file.
    """
    path = directory / "stderr"
    with path.open("wb") as stderr:
        status = os.fstat(stderr.fileno())
        environ = {"PYTHONPATH": str(REPOSITORY)}
        if stream is not None:
            environ["JOURNAL_STREAM"] = stream.replace("FILE", f"{status.st_dev}:{status.st_ino}")
        subprocess.run([sys.executable, "-c", SAYING], env=environ, stderr=stderr, check=True)
    return path.read_text()


def test_lines_for_the_journal_begin_with_their_priority(tmp_path: Path) -> None:
    assert said(tmp_path, "FILE") == "<3>first\n<4>second\\x1b[2J\\x0aline\n<5>third\n<6>fourth\n"


@pytest.mark.parametrize("stream", [None, "", "1:1", "nonsense"])
def test_lines_for_terminals_have_no_priority(tmp_path: Path, stream: str | None) -> None:
    assert said(tmp_path, stream) == "first\nsecond\\x1b[2J\\x0aline\nthird\nfourth\n"


def test_closed_standard_error_is_not_an_error() -> None:
    code = f"import os; os.close(2); {SAYING}"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(REPOSITORY)}, check=True)


def log_failure(directory: Path, *, is_journal: bool, listens: bool = True) -> tuple[list[str], str]:
    """Return the fields that journald gets, and what is written to standard error."""
    path, errors = directory / "journal", directory / "stderr"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald, errors.open("wb") as stderr:
        if listens:
            journald.bind(str(path))
            journald.setblocking(False)
        log = Log(stderr.fileno(), is_journal, str(path))
        fields = {"SERVICE_RECORD_STAGE": "a\nMESSAGE=forged", "SERVICE_RECORD_RESULT": ""}
        log.failure("failed: bootkube", fields)
        try:
            received = journald.recv(4096).decode() if listens else ""
        except BlockingIOError:
            received = ""
    return received.splitlines(), errors.read_text()


def test_failure_has_fields_in_the_journal(tmp_path: Path) -> None:
    received, written = log_failure(tmp_path, is_journal=True)

    assert written == ""
    assert set(received) == {
        "SYSLOG_IDENTIFIER=service-record",
        "MESSAGE=failed: bootkube",
        f"MESSAGE_ID={VERDICT_ID}",
        "PRIORITY=3",
        "SERVICE_RECORD_STAGE=a\\x0aMESSAGE=forged",
    }


def test_failure_is_a_line_if_journald_does_not_listen(tmp_path: Path) -> None:
    assert log_failure(tmp_path, is_journal=True, listens=False) == ([], "<3>failed: bootkube\n")


def test_failure_is_not_logged_for_people(tmp_path: Path) -> None:
    assert log_failure(tmp_path, is_journal=False) == ([], "")
