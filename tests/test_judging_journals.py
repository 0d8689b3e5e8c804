"""A host without records is judged by the runs in its journal, by `analyze` and `triage` alike."""

import json
from pathlib import Path

import pytest

from service_record.triage.judge import judge_bundle
from service_record.triage.rows import BundleRow, Reference
from tests.command_line import service_record

STAMP = "Nov 21 10:00:{:02} node "
FAILED = ("Main process exited, code=exited, status=1/FAILURE", "Failed with result 'exit-code'.")


def journal(*lines: str) -> str:
    """Return a journal as text; a line without a program is systemd's."""
    whole = [line if "]: " in line else f"systemd[1]: {line}" for line in lines]
    return "".join(f"{STAMP.format(number)}{line}\n" for number, line in enumerate(whole))


def failed(unit: str) -> tuple[str, ...]:
    return tuple(f"{unit}: {message}" for message in FAILED)


def judged(directory: Path, text: str, name: str = "out.txt") -> BundleRow:
    file = directory / name
    file.write_text(text)
    return judge_bundle(str(file), Reference(str(file)))


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (("Started app.service.", *failed("app.service"), "Started app.service."), "succeeded"),
        (("Started app.service.", *failed("app.service")), "failed"),
        (3 * ("Started app.service.", *failed("app.service")), "looping"),
        # systemd 219 and 229: no result, and no unit in the line of the start.
        (
            (
                "app.service: main process exited, code=exited, status=1/FAILURE",
                "Unit app.service entered failed state.",
            ),
            "failed",
        ),
        (
            (
                "app.service: Control process exited, code=exited status=2",
                "app.service: Unit entered failed state.",
            ),
            "failed",
        ),
        # A fragment that ends before systemd gives the result.
        (("app.service: Main process exited, code=exited, status=1/FAILURE",), "failed"),
    ],
)
def test_journal_is_judged_by_latest_run(tmp_path: Path, lines: tuple[str, ...], verdict: str) -> None:
    row = judged(tmp_path, journal(*lines))
    assert row.verdict == verdict, row.says


def test_refused_restart_is_failure_after_good_runs(tmp_path: Path) -> None:
    good = ("Starting app.service...", "app.service: Deactivated successfully.", "Finished app.service.")
    refused = (
        "app.service: Start request repeated too quickly.",
        "app.service: Failed with result 'start-limit-hit'.",
    )
    assert judged(tmp_path, journal(*good, *refused)).verdict == "failed"


def test_failure_with_cause_is_root_of_unrelated_ones(tmp_path: Path) -> None:
    full = "pull.sh[7]: write /var/lib/x: no space left on device"
    lines = (*failed("other.service"), "Started pull.service.", full, *failed("pull.service"))
    row = judged(tmp_path, journal(*lines))
    assert (row.service, row.rank) == ("pull", "cause"), row.says


def test_unit_that_often_fails_is_named_without_verdict(tmp_path: Path) -> None:
    waited = "systemd-networkd-wait-online[9]: Timeout occurred while waiting for network connectivity."
    row = judged(tmp_path, journal(waited, *failed("systemd-networkd-wait-online.service")))
    assert row.verdict == "succeeded"
    assert "systemd-networkd-wait-online failed" in row.says


@pytest.mark.parametrize(
    ("active", "exits"),
    [
        ("failed (Result: exit-code) since Tue 2017-08-01 04:57:30 UTC; 11min ago", "status=4/NOPERMISSION"),
        ("activating (auto-restart) (Result: exit-code) since Tue 2017-08-01 04:57:30 UTC", "status=4"),
    ],
)
def test_output_of_systemctl_status_is_read(tmp_path: Path, active: str, exits: str) -> None:
    text = (
        "● app.service - The application\n"
        "   Loaded: loaded (/etc/systemd/system/app.service; enabled)\n"
        f"   Active: {active}\n"
        f"  Process: 708 ExecStart=/opt/app (code=exited, {exits})\n"
        f" Main PID: 708 (code=exited, {exits})\n"
    )
    row = judged(tmp_path, text)
    assert row.verdict == "failed"
    assert "app.service: exit 4" in row.says


@pytest.mark.parametrize("before", ["[   20.675944] ", "r details.[   20.675944] ", ""])
def test_line_without_time_of_day_is_read(tmp_path: Path, before: str) -> None:
    messages = (
        "app[7]: fatal: the license has expired",
        *(f"systemd[1]: {one}" for one in failed("app.service")),
    )
    row = judged(tmp_path, "".join(f"{before}{message}\n" for message in messages))
    assert row.verdict == "failed"
    assert "the license has expired" in row.says


def test_analyze_agrees_with_triage(tmp_path: Path) -> None:
    row = judged(tmp_path, journal("Started app.service.", *failed("app.service")))
    answer = service_record("analyze", str(tmp_path / "out.txt"), "-o", "json")
    document = json.loads(answer.out)
    assert (document["verdict"], document["says"]) == (row.verdict, row.says)


def test_line_of_baseline_does_not_stand_out(tmp_path: Path) -> None:
    usual = "agent[5]: error: cannot read /etc/agent/extra.conf"
    new = "agent[5]: error: cannot bind the tunnel to veth7"
    (tmp_path / "good.txt").write_text(journal("Started app.service.", usual))
    (tmp_path / "bad.txt").write_text(journal("Started app.service.", usual, new))
    arguments = ("analyze", str(tmp_path / "bad.txt"), "-o", "json")
    lines = []
    for more in ((), ("--baseline", str(tmp_path / "good.txt"))):
        document = json.loads(service_record(*arguments, *more).out)
        lines.append(json.dumps(document["standsOut"]))
    assert "extra.conf" in lines[0]
    assert "extra.conf" not in lines[1]
    assert "the tunnel" in lines[1]
