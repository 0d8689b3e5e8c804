"""A bundle without records is evidence where it says which units failed."""

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from service_record.collector.domain.summary_of_records import BesideRecords, judge_records, summarise
from service_record.collector.ingest.opening_bundles import read_bundle
from service_record.record.layout import read_entries
from tests.builders import entry
from tests.command_line import service_record

FAILED_UNITS = "● bootkube.service loaded failed failed Bootstrap\n\n1 loaded units listed.\n"
STATUS = (
    "* bootkube.service\n     Active: failed (Result: exit-code)\n"
    "    Process: 12 ExecStart=/bin/job (code=exited, status=3)\n"
)
NONE_FAILED = "  UNIT LOAD ACTIVE SUB DESCRIPTION\n0 loaded units listed.\n"


def bundle(directory: Path, listing: str = FAILED_UNITS) -> Path:
    top = directory / "log-bundle"
    (top / "unit-status").mkdir(parents=True)
    (top / "failed-units.txt").write_text(listing)
    (top / "unit-status/bootkube.service.txt").write_text(STATUS)
    return top


def packed(top: Path) -> Path:
    place = top.with_name("b.tar")
    with tarfile.open(place, "w") as archive:
        archive.add(top, "log-bundle")
    return place


@pytest.mark.parametrize("is_packed", [True, False], ids=["archive", "directory"])
@pytest.mark.parametrize(("verb", "status"), [("analyze", 1), ("show", 0)])
def test_failed_units_are_listed(verb: str, status: int, is_packed: bool, tmp_path: Path) -> None:
    top = bundle(tmp_path)
    answer = service_record(verb, "--from", packed(top) if is_packed else top)
    assert "bootkube.service: exit 3 of ExecStart=/bin/job" in answer.out
    assert (answer.status, answer.err) == (status, "")


def test_to_programs_show_names_them_too(tmp_path: Path) -> None:
    answer = service_record("show", "--output", "json", "--from", bundle(tmp_path))
    assert json.loads(answer.out)["failedUnits"] == [
        {"unit": "bootkube.service", "facts": {"exitCode": 3, "serviceResult": "exit-code"}}
    ]
    assert service_record("show", "--fail", "--from", tmp_path).status == 1


def test_other_verbs_say_who_can_read_it(tmp_path: Path) -> None:
    answer = service_record("timeline", "--from", bundle(tmp_path))
    assert (answer.status, answer.err.count("\n")) == (3, 1)
    assert "use show or analyze" in answer.err


def test_bundle_without_failed_units_exits_with_3(tmp_path: Path) -> None:
    assert service_record("analyze", "--from", bundle(tmp_path, NONE_FAILED)).status == 3
    assert service_record("show", "--from", packed(tmp_path / "log-bundle")).status == 3


def test_collector_judges_failed_unit_as_failed_host(tmp_path: Path) -> None:
    found = read_bundle(packed(bundle(tmp_path))).look
    assert (found.verdict, found.service, found.services) == ("failed", "bootkube", ())
    assert found.reason.startswith("bootkube.service: exit 3")


def test_good_records_do_not_hide_a_failed_unit() -> None:
    good = entry().to_line() + entry("service end", 5).to_line()
    records = [("crio", read_entries(BytesIO(good)))]
    assert summarise(judge_records(records)).verdict == "succeeded"
    records = [("crio", read_entries(BytesIO(good)))]
    judged = judge_records(records, beside=BesideRecords(unit_texts={"b/failed-units.txt": FAILED_UNITS}))
    assert summarise(judged).verdict == "failed"
