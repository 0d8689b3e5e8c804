"""What `analyze` asks the running host: programs of any behaviour neither hold it nor fill its memory."""

import json
import os
import textwrap
import time
from pathlib import Path

import pytest

from service_record.read import derived
from service_record.read.host_table import HOST_FILES, HOST_LOGS, HOST_PROGRAMS
from service_record.read.live_host import live_contents, read_file_end
from service_record.read.source import Source, SourceError
from service_record.reporter.gather.collectors import COLLECTORS
from service_record.reporter.gather.sources import File, ProgramSource, Tree
from tests.waiting import wait_for


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in front of PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{textwrap.dedent(text)}")
    path.chmod(0o755)


def is_running(pid: str) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_output_is_read_despite_an_open_pipe(programs: Path) -> None:
    pid = programs / "pid"
    write_program(programs / "timedatectl", f"echo 'NTP service: inactive'; sleep 600 & echo $! >{pid}")
    before = time.monotonic()
    contents = dict(live_contents(seconds=20.0))

    assert contents["timedatectl"] == b"NTP service: inactive\n"
    assert time.monotonic() - before < 15
    wait_for(lambda: not is_running(pid.read_text().strip()))


def test_endless_program_is_left_out_at_deadline(programs: Path) -> None:
    write_program(programs / "timedatectl", "echo begun; exec sleep 600")

    assert "timedatectl" not in dict(live_contents(seconds=1.0))


def test_partly_read_journal_is_left_out(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs would seem to go on: their ends may be in the rest."""
    monkeypatch.setattr(derived, "_LIVE_SECONDS", 1.0)
    entry = {"MESSAGE": "Starting job.service - Job...", "UNIT": "job.service", "_PID": "1"}
    entry |= {"MESSAGE_ID": "7d4958e842da4a758f6c1cdc7b36dcc5", "__REALTIME_TIMESTAMP": "1764378000000000"}
    write_program(programs / "journalctl", f"echo '{json.dumps(entry)}'; exec sleep 600")
    source = derived.journal_of_this_host(Source("here", ()))

    assert source is not None
    assert source.records == ()
    assert [part.reason for part in source.left_out] == ["not read: journalctl did not end within its time"]
    with pytest.raises(SourceError, match="the journal of this host cannot be read: journalctl did not end"):
        derived.journal_of_this_host(None)


@pytest.mark.timeout(10)
def test_named_pipe_as_log_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "agent.log")
    with pytest.raises(OSError, match="not a regular file"):
        read_file_end(tmp_path / "agent.log")


def test_end_of_a_linked_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(b"first" + bytes(1 << 18) + b"last\n")
    (tmp_path / "pod.log").symlink_to("0.log")
    tail = read_file_end(tmp_path / "pod.log")
    assert (len(tail), tail[-5:]) == (1 << 18, b"last\n")


def test_bundle_has_all_evidence_of_the_host() -> None:
    sources = [row.source for row in COLLECTORS]

    assert set(HOST_PROGRAMS.values()) <= {one.argv for one in sources if isinstance(one, ProgramSource)}
    assert set(HOST_FILES.values()) <= {one.path for one in sources if isinstance(one, File)}
    trees = {(one.base, one.patterns) for one in sources if isinstance(one, Tree)}
    assert set(HOST_LOGS.values()) <= trees
