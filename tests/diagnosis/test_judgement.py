"""All that judge a host agree: `analyze`, the page in a bundle, `triage`, the collector and the reporter."""

import json
import os
import shutil
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from service_record.cli.diagnosis_input import verdict_page
from service_record.collector.ingest.opening_bundles import judge_stream
from service_record.diagnosis import Diagnosis
from service_record.display.analysis_document import analysis_document
from service_record.display.machine import format_json
from service_record.record import systemd
from service_record.reporter.host_state import observe
from service_record.reporter.paths import Places
from service_record.triage.judge import judge_bundle
from service_record.triage.rows import Reference
from tests.archives import extract_all
from tests.builders import require
from tests.command_line import service_record
from tests.programs import REPOSITORY

EXAMPLES = REPOSITORY / "docs/examples"
EXAM = os.environ.get("SERVICE_RECORD_EXAM")
"""A directory outside the repository; each directory in its `cases` has a `bundle`, and maybe `records`."""
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.name != "README.md")


def packed(name: str, directory: Path) -> Path:
    """Return an example as a bundle, in OpenShift's layout."""
    if name.endswith(".tar.gz"):
        return EXAMPLES / name
    bundle = directory / f"{name}.tar.gz"
    with tarfile.open(bundle, "w:gz") as archive:
        archive.add(EXAMPLES / name, "bundle/bootstrap/services")
    return bundle


def installed(name: str, root: Path) -> Path:
    """Return the records of an example as those of a host below a root."""
    records = root / "var/log/openshift"
    source = EXAMPLES / name
    if name.endswith(".tar.gz"):
        with tarfile.open(source) as archive:
            extract_all(archive, root / "unpacked")
        source = next((root / "unpacked").rglob("services"))
    shutil.copytree(source, records)
    return records


def analyzed(*arguments: str | Path, records: Path | None = None) -> dict[str, Any]:
    directory: dict[str, Any] = {} if records is None else {"SERVICE_RECORDS_DIR": str(records)}
    document: dict[str, Any] = json.loads(
        service_record("analyze", "-o", "json", *arguments, **directory).out
    )
    return document


def as_document(diagnosis: Diagnosis | None, source: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(format_json(analysis_document(require(diagnosis), str(source))))
    return document


def check_bundle(bundle: Path) -> None:
    """Compare `analyze`, the collector and `triage` for a bundle."""
    document = analyzed("--from", bundle)
    with bundle.open("rb") as stream:
        assert as_document(judge_stream(stream).diagnosis, bundle) == document
    (row,) = judge_bundle(str(bundle), Reference(str(bundle)))
    assert (row.verdict, row.says) == (document["verdict"], document["says"])


def check_host(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare `analyze`, the reporter and the page in a bundle for a host with records below a root."""
    records = root / "var/log/openshift"
    monkeypatch.setenv("SERVICE_RECORDS_DIR", str(records))
    document = analyzed(records=records)
    monkeypatch.setattr(systemd, "failed_units", tuple)
    observed = as_document(observe(Places(root)).diagnosis, records)
    for running in (*observed["running"], *document["running"]):
        del running["seconds"]  # up to now, which is later the second time
    assert observed == document
    page = verdict_page(datetime.now(UTC))
    says = " ".join(document["says"].split())
    assert says[:100] in " ".join(page.split())  # the page shortens a long message


@pytest.mark.parametrize("name", NAMES)
def test_bundle_is_judged_alike(name: str, tmp_path: Path) -> None:
    check_bundle(packed(name, tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_host_is_judged_alike(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(name, tmp_path)
    check_host(tmp_path, monkeypatch)


@pytest.mark.thorough
@pytest.mark.parametrize("case", sorted(Path(EXAM, "cases").iterdir()) if EXAM else [None])
def test_case_of_an_exam_is_judged_alike(
    case: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case is None:
        pytest.skip("SERVICE_RECORD_EXAM is not set: the cases cannot be had here")
    bundle = tmp_path / "bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as archive:
        archive.add(case / "bundle", ".")
    check_bundle(bundle)
    if (case / "records").is_dir():
        shutil.copytree(case / "records", tmp_path / "var/log/openshift")
        check_host(tmp_path, monkeypatch)


def test_unfinished_write_is_reported_by_all(tmp_path: Path) -> None:
    services = tmp_path / "bundle/bootstrap/services"
    shutil.copytree(EXAMPLES / "good", services)
    record = min(services.glob("*.json"))
    record.with_name(f"{record.name}.tmp").write_text("[")
    bundle = tmp_path / "bundle.tar.gz"
    with tarfile.open(bundle, "w:gz") as archive:
        archive.add(tmp_path / "bundle", "bundle")
    document = analyzed("--from", bundle)
    with bundle.open("rb") as stream:
        assert as_document(judge_stream(stream).diagnosis, bundle) == document
    assert [each["service"] for each in document["damaged"]] == [record.stem]
    place = installed("good", tmp_path / "host")
    (place / f"{record.name}.tmp").write_text("[")
    (damaged,) = require(observe(Places(tmp_path / "host")).diagnosis).damaged
    assert (damaged.service, damaged.is_unfinished) == (record.stem, True)
