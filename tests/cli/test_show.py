"""`service-record show`, as it is started and on real files."""

import errno
import gzip
import json
import os
import pty
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from service_record.cli.options import parse_moment
from service_record.cli.terminal import has_color
from service_record.record import systemd
from service_record.record.entry import Phase, Result
from tests.archives import SERVICES, header, record, tar
from tests.builders import START, array, entry, failed_run, upstream_entry, write_array, write_lines
from tests.command_line import PROGRAM, environment, service_record

OTHER_BOOT = "c1" * 16
FAILED = ("job", "failure", "b0" * 16)
SUCCEEDED = ("job", "success", OTHER_BOOT)
RUNNING = ("other", "running", OTHER_BOOT)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Two boots of a host: in the first `job` fails, in the second it succeeds and `other` is running."""
    again = [entry(at=1000), entry(Phase.STAGE_START, 1001, stage="last"), entry(Phase.SERVICE_END, 1005)]
    write_lines(tmp_path / "job.json", *failed_run(), *[replace(one, boot_id=OTHER_BOOT) for one in again])
    write_array(tmp_path / "other.json", entry(at=1000, boot_id=OTHER_BOOT))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", [FAILED, SUCCEEDED, RUNNING]),
        ("job", [FAILED, SUCCEEDED]),
        ("--failed", [FAILED]),
        ("--boot 0", [SUCCEEDED, RUNNING]),
        ("--boot -1", [FAILED]),
        ("--boot 1", [FAILED]),
        ("--boot c1c1", [SUCCEEDED, RUNNING]),
        ("--boot all other", [RUNNING]),
        ("--stage second", [FAILED]),
        ("--stage absent", []),
        ("--since 2026-11-21T01:06:00Z", [SUCCEEDED, RUNNING]),
        ("--until 2026-11-20T20:06:00", [FAILED]),
        ("--since @1795223160", [SUCCEEDED, RUNNING]),
    ],
)
def test_selected_services_and_times_are_shown(
    records: Path, arguments: str, expected: list[tuple[str, str, str]]
) -> None:
    answer = service_record("show", "--output", "json", "--from", records, *arguments.split())
    found = [
        (service["service"], run["outcome"], run["bootId"])
        for service in json.loads(answer.out)["services"]
        for run in service["runs"]
    ]
    assert (found, answer.status) == (expected, 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ["service start", "stage start", "stage end", "service end", "service start"]),
        ("--stage second", ["stage start", "stage end"]),
        ("--failed", ["stage end", "service end"]),
        ("--boot -1 --until 2026-11-21T01:05:12Z", ["service start", "stage start"]),
    ],
)
def test_entries_are_selected_one_by_one(tmp_path: Path, arguments: str, expected: list[str]) -> None:
    path = write_lines(tmp_path / "job.json", *failed_run(), entry(at=99, boot_id=OTHER_BOOT))
    answer = service_record("show", "--output", "jsonl", "--from", path, *arguments.split())
    assert [json.loads(line)["phase"] for line in answer.out.splitlines()] == expected


@pytest.mark.parametrize(
    ("boot", "message"),
    [
        ("7", "no boot 7: the records have 2; 0 is the latest"),
        ("ffff", "no boots begin with ffff"),
        ("-2", "no boot -2"),
    ],
)
def test_unknown_boot_exits_with_3(records: Path, boot: str, message: str) -> None:
    answer = service_record("show", "--from", records, "--boot", boot)
    assert answer.status == 3
    assert message in answer.err


def test_unknown_service_suggests_the_nearest(records: Path) -> None:
    answer = service_record("show", "--from", records, "jbo")
    assert (answer.status, answer.out) == (3, "")
    assert answer.err == f"Error: no record of jbo in {records}; did you mean job?\n"


def test_very_different_service_suggests_some_services(tmp_path: Path) -> None:
    for number in range(24):
        write_lines(tmp_path / f"agent-{number:02}.json", entry())
    answer = service_record("show", "--from", tmp_path, "bootkube")
    first = ", ".join(f"agent-{number:02}" for number in range(8))
    assert answer.err == f"Error: no record of bootkube in {tmp_path}; there are: {first} and 16 more\n"


@pytest.mark.parametrize("verb", ["show", "analyze", "timeline", "export"])
def test_service_can_be_named_by_its_unit(records: Path, verb: str) -> None:
    form = ("--to", "jsonl") if verb == "export" else ()
    by_unit, by_name = (
        service_record(verb, *form, "--from", records, name) for name in ("job.service", "job")
    )
    assert by_unit == by_name
    assert by_unit.out


def test_failed_pre_command_does_not_lack_a_start(tmp_path: Path) -> None:
    failed = entry(Phase.PRE_COMMAND_END, 3, pre_command="prepare", result=Result.FAILURE, exit_code=2)
    write_lines(tmp_path / "job.json", entry(Phase.PRE_COMMAND_START, pre_command="prepare"), failed)
    answer = service_record("show", "--from", tmp_path)
    assert "job failed in pre-command prepare" in answer.out
    assert "no start recorded" not in answer.out
    write_lines(tmp_path / "job.json", entry(Phase.SERVICE_END, 3, result=Result.FAILURE, exit_code=2))
    assert "no start recorded" in service_record("show", "--from", tmp_path).out


def test_arguments_do_not_control_the_terminal(tmp_path: Path) -> None:
    place = tmp_path / "\x1b[2J"
    place.mkdir()
    write_lines(place / "job.json", entry())
    answer = service_record("show", "--from", place, "\u202ebo\n")
    assert answer.status == 3
    assert answer.err == (f"Error: no record of \\u202ebo\\x0a in {tmp_path}/\\x1b[2J; there are: job\n")


def test_empty_directory_is_reported_with_advice(tmp_path: Path) -> None:
    answer = service_record("show", SERVICE_RECORDS_DIR=str(tmp_path))
    assert (answer.status, answer.out, answer.err.count("\n")) == (3, "", 1)
    assert f"no records in {tmp_path}: no *.json file there" in answer.err
    assert "--from" in answer.err


@pytest.mark.parametrize(("service", "status"), [("job", 0), ("bad", 1), ("killed", 1)])
@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_fail_option_checks_the_latest_runs(records: Path, service: str, status: int, output: str) -> None:
    write_lines(records / "bad.json", *failed_run())
    write_lines(records / "killed.json", entry())  # the other boot, of which other records know, came later
    answer = service_record("show", service, "--fail", "--output", output, "--from", records)
    assert answer.status == status
    assert service_record("show", service, "--output", output, "--from", records).status == 0


def test_printed_entries_are_read_from_standard_input(records: Path) -> None:
    printed = service_record("show", "--output", "jsonl", "--from", records).out
    shown = service_record("show", "--from", "-", stdin=printed.encode()).out
    heading, _, services = shown.partition("\n\n")
    assert heading.endswith("standard input, 2 boots")
    assert services == service_record("show", "--from", records).out.partition("\n\n")[2]


def test_damage_is_shown_and_hides_nothing(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *failed_run(), b'{"timestamp": "2026\x1b[2J\n', entry(at=60))
    answer = service_record("show", "--from", path)
    assert answer.status == 0
    assert "1 damaged piece" in answer.out
    assert "line 5: " in answer.out
    assert r"2026\x1b[2J" in answer.out
    assert "failed in stage second" in answer.out


FIVE_HOURS = 5 * 3600
LOCAL = "times seem to be those of UTC-05:00, although labelled UTC"


@pytest.mark.parametrize(
    ("content", "later", "beside", "doubt", "fields"),
    [
        pytest.param(array(upstream_entry()), 60, "other.json", None, {}, id="nothing"),
        pytest.param(b"", 0, "other.json", "no entry in it", {}, id="zero-bytes"),
        pytest.param(
            array(upstream_entry()), FIVE_HOURS, "other.json", LOCAL, {"utcOffset": -FIVE_HOURS}, id="zone"
        ),
        pytest.param(
            array(upstream_entry()),
            0,
            "job.json.tmp",
            "job.json.tmp lies beside",
            {"unfinished": True},
            id="tmp",
        ),
        pytest.param(
            array(upstream_entry()),
            0,
            "job.json.damaged",
            "job.json.damaged lies beside it, with what was damaged in it\n",
            {"damagedCopy": True},
            id="damaged",
        ),
    ],
)
def test_doubts_about_upstream_records_are_shown(
    tmp_path: Path, *, content: bytes, later: float, beside: str, doubt: str | None, fields: dict[str, object]
) -> None:
    record = tmp_path / "job.json"
    record.write_bytes(content)
    write_array(tmp_path / beside, entry())
    os.utime(record, (0, START.timestamp() + later))
    page = service_record("show", "--from", tmp_path).out
    assert page.partition("! ")[2].startswith(f"job record\n  {doubt}" if doubt else "")
    assert ("! " in page) is (doubt is not None)
    services = json.loads(service_record("show", "-o", "json", "--from", tmp_path).out)["services"]
    doubts = "unfinished", "utcOffset", "damagedCopy"
    assert {name: services[0][name] for name in doubts if name in services[0]} == fields


def test_open_run_is_running_only_with_its_process(tmp_path: Path) -> None:
    boot: dict[str, Any] = {"boot_id": systemd.boot_id(), "uptime": systemd.uptime()}
    with subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
    write_lines(tmp_path / "gone.json", entry(pid=gone.pid, **boot))
    write_lines(tmp_path / "here.json", entry(pid=os.getpid(), **boot))
    page = service_record("show", "--from", tmp_path).out
    assert "▲ gone interrupted" in page
    assert "● here running" in page


def test_document_lists_files_left_out_of_bundle(records: Path, tmp_path: Path) -> None:
    link = header(f"{SERVICES}/\x1b.json", type=tarfile.SYMTYPE)
    cut = gzip.compress(tar(record("job", *failed_run()), link))[:-4]
    (tmp_path / "bundle").write_bytes(cut)
    expected = [
        (f"{tmp_path}/bundle: {SERVICES}/\x1b.json", "refused: a symbolic link, not a plain file"),
        (f"{tmp_path}/bundle", "the compressed data has no end"),
    ]
    for place in (records, tmp_path / "bundle"):
        answer = service_record("show", "--output", "json", "--from", place)
        left_out = [(part["path"], part["reason"]) for part in json.loads(answer.out)["leftOut"]]
        assert left_out == (expected if place.is_file() else [])
        assert "\x1b" not in answer.out + answer.err


def test_yaml_is_the_same_document_as_json(records: Path) -> None:
    outputs = [service_record("show", "--from", records, "-o", form).out for form in ("json", "yaml")]
    assert json.loads(outputs[0]) == yaml.safe_load(outputs[1])


def test_times_in_a_pipe_are_utc_by_default(records: Path) -> None:
    assert "2026-11-21 01:05:20Z" in service_record("show", "--from", records, "-o", "wide").out
    assert (
        "2026-11-20 20:05:20-05:00" in service_record("show", "--from", records, "-o", "wide", "--local").out
    )
    assert (
        "2026-11-21T01:05:20.000Z" in service_record("show", "--from", records, "-o", "json", "--local").out
    )


def test_encoding_without_glyphs_gets_ascii(records: Path) -> None:
    write_lines(records / "bad.json", *failed_run("完了"))
    page = service_record("show", "--from", records, PYTHONIOENCODING="ascii").out
    assert page.isascii()
    assert r"x bad failed in stage \u5b8c\u4e86" in page


def on_a_terminal(*arguments: object, **variables: str) -> str:
    """Return the screen of a terminal of 24 rows and 80 columns."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        stdin=follower,
        stdout=follower,
        env=environment(LINES="24", COLUMNS="80", **variables),
    ):
        os.close(follower)
        shown = b"".join(iter(lambda: _read(leader), b""))
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError as error:
        if error.errno != errno.EIO:  # Linux says so when the other side is closed
            raise
        return b""


def test_terminal_output_has_colour_and_local_time(records: Path) -> None:
    page = on_a_terminal("show", "--from", records, "--failed", PAGER="false")
    assert "\x1b[1;31m✗ \x1b[0m\x1b[1mjob\x1b[0m" in page
    assert "2026-11-20 20:05:20-05:00" in page


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_colour_can_be_refused(records: Path, variables: dict[str, str]) -> None:
    page = on_a_terminal("show", "--from", records, **variables)
    assert "✗ job failed" in page or "✓ job succeeded" in page
    assert "\x1b" not in page


def test_more_than_a_screen_goes_through_the_pager(records: Path) -> None:
    many = [replace(one, pid=pid) for pid in range(9) for one in failed_run()]
    write_lines(records / "job.json", *many)
    arguments = "show", "--from", records, "-o", "wide"
    assert on_a_terminal(*arguments, PAGER="sed s/failed/PAGED/").count("PAGED") > 8
    assert "PAGED" not in on_a_terminal(*arguments, "--no-pager", PAGER="sed s/failed/PAGED/")


@pytest.mark.parametrize(
    ("when", "variables", "is_terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_whether_there_is_colour(
    when: str, variables: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    assert has_color(when, variables, is_terminal=is_terminal) is expected


NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("today", NOW.replace(hour=0, minute=0)),
        ("yesterday", NOW.replace(day=20, hour=0, minute=0)),
        ("10m", NOW - timedelta(minutes=10)),
        ("-1h", NOW - timedelta(hours=1)),
        ("1h30m ago", NOW - timedelta(minutes=90)),
        ("2d 4h", NOW - timedelta(hours=52)),
        ("@1795223160.5", datetime(2026, 11, 21, 1, 6, 0, 500_000, UTC)),
        ("2026-11-21T03:12+02:00", datetime(2026, 11, 21, 1, 12, tzinfo=UTC)),
        ("2026-11-21", datetime(2026, 11, 21).astimezone()),  # midnight here is what is meant
    ],
)
def test_time_can_be_written_in_many_ways(text: str, expected: datetime) -> None:
    assert parse_moment(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "later", "10", "@", "@nan", "1x", "99999999999d", "2026-13-01"])
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_moment(text, NOW)


def test_survived_failures_are_counted_by_stage(tmp_path: Path) -> None:
    failed = {"result": Result.FAILURE, "error_message": "no route to host"}
    write_lines(
        tmp_path / "job.json",
        entry(),
        entry(Phase.STAGE_START, 1, stage="resolve"),
        entry(Phase.STAGE_END, 2, stage="resolve", **failed),
        entry(Phase.STAGE_START, 3, stage="pull"),
        entry(Phase.STAGE_END, 4, stage="pull", **failed),
        entry(Phase.STAGE_START, 5, stage="wait"),
    )
    text = " ".join(service_record("show", "--from", tmp_path, COLUMNS="200").out.split())
    assert "continued after stage resolve failed once, stage pull failed once" in text
    assert "handled stage pull failed once message │ no route to host" in text
