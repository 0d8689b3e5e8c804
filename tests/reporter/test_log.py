"""What a round says: to the journal with priorities, to people without."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service_record.record.journal_sending import MessageKind
from service_record.reporter.log import Log
from tests.programs import REPOSITORY

SAYING = """
import os
from dataclasses import replace
from service_record.reporter.log import open_log
say = replace(open_log(os.environ), socket="/nowhere/journal")
say.error("first"); say.warning("second\\x1b[2J\\nline"); say.notice("third"); say.info("fourth")
"""


def log_lines(directory: Path, stream: str | None) -> str:
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


def test_lines_without_a_journal_have_priorities(tmp_path: Path) -> None:
    assert log_lines(tmp_path, "FILE") == "<3>first\n<4>second\\x1b[2J\\x0aline\n<5>third\n<6>fourth\n"


@pytest.mark.parametrize("stream", [None, "", "1:1", "nonsense"])
def test_lines_for_terminals_have_no_priority(tmp_path: Path, stream: str | None) -> None:
    assert log_lines(tmp_path, stream) == "first\nsecond\\x1b[2J\\x0aline\nthird\nfourth\n"


def test_closed_standard_error_is_not_an_error() -> None:
    code = f"import os; os.close(2); {SAYING}"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(REPOSITORY)}, check=True)


def receive_all(journald: socket.socket) -> Iterator[dict[str, str]]:
    """Yield the fields of each message that was sent to a socket."""
    journald.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            lines = journald.recv(4096).decode().splitlines()
            yield dict(line.split("=", 1) for line in lines)


def log_all(
    directory: Path, *, is_journal: bool, listens: bool = True
) -> tuple[list[dict[str, str]], list[str]]:
    """Return the messages that journald gets, and the lines that are written to standard error."""
    path, errors = directory / "journal", directory / "stderr"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald, errors.open("wb") as stderr:
        if listens:
            journald.bind(str(path))
        say = Log(stderr.fileno(), is_journal, "boot-reporter.service", str(path))
        say.error("no bundle: disk full", MessageKind.NO_BUNDLE)
        say.warning("a directory is a file")
        say.notice("shipped", MessageKind.DELIVERED)
        say.info("rotated")
        fields = {
            "SERVICE_RECORD_STAGE": "a\nMESSAGE=forged",
            "SERVICE_RECORD_RESULT": "looping",
            "SERVICE_RECORD_SERVICE": "",
        }
        say.failure("failed: bootkube", fields)
        received = list(receive_all(journald)) if listens else []
    return received, errors.read_text().splitlines()


def test_messages_in_the_journal_have_fields(tmp_path: Path) -> None:
    received, written = log_all(tmp_path, is_journal=True)

    assert written == []
    kinds = ("NO_BUNDLE", "TROUBLE", "DELIVERED", "ROUND", "VERDICT")
    assert [each["MESSAGE_ID"] for each in received] == [MessageKind[kind].message_id for kind in kinds]
    assert [each["PRIORITY"] for each in received] == ["3", "4", "5", "6", "3"]
    results = [each.get("SERVICE_RECORD_RESULT") for each in received]
    assert results == ["failed", "failed", "delivered", None, "looping"]
    assert {each["OBJECT_SYSTEMD_UNIT"] for each in received} == {"boot-reporter.service"}
    assert {each["SYSLOG_IDENTIFIER"] for each in received} == {"service-record"}
    assert received[-1]["MESSAGE"] == "failed: bootkube"
    assert received[-1]["SERVICE_RECORD_STAGE"] == "a\\x0aMESSAGE=forged"
    assert "SERVICE_RECORD_SERVICE" not in received[-1]


def test_messages_are_lines_if_journald_does_not_listen(tmp_path: Path) -> None:
    received, written = log_all(tmp_path, is_journal=True, listens=False)

    assert received == []
    assert written == [
        "<3>no bundle: disk full",
        "<4>a directory is a file",
        "<5>shipped",
        "<6>rotated",
        "<3>failed: bootkube",
    ]


def test_verdict_is_not_logged_for_people(tmp_path: Path) -> None:
    received, written = log_all(tmp_path, is_journal=False)

    assert received == []
    assert "failed: bootkube" not in written


LOGGING = """
import logging, os, sys
import service_record.record.journal_sending as journal
from service_record.collector import logs
journal.SOCKET = sys.argv[1]
status = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
logs.configure()
logs.log().error("database", fault="DBAPIError")
logs.log().info("refused", status=401)
logging.getLogger("service_record.collector.ingest.rounds").warning("records of host %d are judged later", 7)
logging.getLogger("uvicorn.error").warning("of a library")
"""


def test_lines_of_the_collector_have_fields_in_the_journal(tmp_path: Path) -> None:
    path, errors = tmp_path / "journal", tmp_path / "stderr"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald, errors.open("wb") as stderr:
        journald.bind(str(path))
        command = [sys.executable, "-c", LOGGING]
        subprocess.run([*command, path], stderr=stderr, check=True)
        received = list(receive_all(journald))

    kinds = ("COLLECTOR_FAULT", "COLLECTOR_REFUSED", "COLLECTOR_PROBLEM")
    assert [each["MESSAGE_ID"] for each in received] == [MessageKind[kind].message_id for kind in kinds]
    assert [json.loads(each["MESSAGE"])["level"] for each in received] == ["error", "info", "warning"]
    (line,) = errors.read_text().splitlines()
    assert json.loads(line)["event"] == "of a library"


FAILING = """
import os, sys
import service_record.record.journal_sending as journal
from service_record.cli import main
journal.SOCKET = sys.argv[1]
status = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
main(["show", "--from", "/no/such/place"])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can name the unit of a message")
def test_error_of_a_command_has_fields_in_the_journal(tmp_path: Path) -> None:
    path, errors = tmp_path / "journal", tmp_path / "stderr"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journald, errors.open("wb") as stderr:
        journald.bind(str(path))
        done = subprocess.run([sys.executable, "-c", FAILING, path], stderr=stderr, check=False)
        (received,) = receive_all(journald)

    assert done.returncode == 3
    assert errors.read_text() == ""
    assert received["MESSAGE_ID"] == MessageKind.COMMAND_FAILED.message_id
    assert received["MESSAGE"].startswith("Error: ")
    assert "/no/such/place" in received["MESSAGE"]
