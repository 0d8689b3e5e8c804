"""`export --to junit` and `--to prometheus`."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from service_record.export.prometheus import to_prometheus
from service_record.history import build_history
from service_record.record.entry import Entry, Phase, Result
from tests.command_line import service_record

AT = "2026-11-21T01:05:1{}.000Z"


def record(message: str = 'no "space" <left>\x07', name: str = "pull") -> list[Entry]:
    return [
        Entry(timestamp=AT.format(0), phase=Phase.SERVICE_START, pid=7),
        Entry(timestamp=AT.format(1), phase=Phase.STAGE_START, stage="prepare", pid=7),
        Entry(timestamp=AT.format(2), phase=Phase.STAGE_END, stage="prepare", result=Result.SUCCESS, pid=7),
        Entry(timestamp=AT.format(2), phase=Phase.STAGE_START, stage=name, pid=7),
        Entry(
            timestamp=AT.format(4),
            phase=Phase.STAGE_END,
            stage=name,
            result=Result.FAILURE,
            exit_code=3,
            error_message=message,
            error_line="12 main /usr/local/bin/x",
            pid=7,
        ),
        Entry(timestamp=AT.format(4), phase=Phase.SERVICE_END, result=Result.FAILURE, exit_code=3, pid=7),
    ]


def exported(tmp_path: Path, form: str) -> str:
    path = tmp_path / "job.json"
    path.write_bytes(b"".join(entry.to_line() for entry in record()))
    answer = service_record("export", "--to", form, "--from", path)
    assert answer.status == 0, answer.err
    return answer.out


def test_stages_are_tests_of_junit(tmp_path: Path) -> None:
    (suite,) = ET.fromstring(exported(tmp_path, "junit"))
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("job", "3", "2")
    prepare, pull, run = suite
    assert (prepare.get("name"), prepare.get("time"), list(prepare)) == ("prepare", "1.000", [])
    failure = pull.find("failure")
    assert failure is not None
    assert failure.get("message") == "exit 3"
    assert (failure.text or "").splitlines() == ['no "space" <left>\ufffd', "/usr/local/bin/x:12 main"]
    assert run.get("name") == "run"


def test_prometheus_has_the_latest_outcome(tmp_path: Path) -> None:
    text = exported(tmp_path, "prometheus")
    samples = dict(re.findall(r"^([a-z_]+\{.*\}) (\S+)$", text, re.MULTILINE))
    assert samples['service_record_last_run{service="job",outcome="failure"}'] == "1"
    assert samples['service_record_last_run{service="job",outcome="success"}'] == "0"
    assert samples['service_record_last_run_duration_seconds{service="job"}'] == "4"
    assert samples['service_record_stage_duration_seconds{service="job",stage="pull"}'] == "2"


def test_labels_of_prometheus_are_escaped() -> None:
    text = b"".join(to_prometheus(build_history([("job", record(name='a"b\\c\nd'))]))).decode()
    assert r'stage="a\"b\\c\nd"} 2' in text


def test_trace_of_a_journal_is_written(tmp_path: Path) -> None:
    journal = tmp_path / "journal.txt"
    journal.write_text("Nov 21 10:00:00 node systemd[1]: Finished a.service - A.\n")
    answer = service_record("export", "--to", "chrome-trace", "--from", journal)
    assert answer.status == 0, answer.err
    assert '"a"' in answer.out
