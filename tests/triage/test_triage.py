"""Tests of `service-record triage`, which counts and compares the causes of many bundles."""

import contextlib
import csv
import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import comb, isclose
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer
from pyarrow import parquet

from service_record.record.entry import Entry, Phase
from service_record.triage.counting import compute_probability_of_rise, find_significance_limit
from service_record.triage.judge import JudgeRequest, answer, judge_path
from service_record.triage.references import find_references
from service_record.triage.rows import BundleRow, Reference
from tests.archives import extract_all, member, record, tar
from tests.builders import entry, failed_run
from tests.command_line import PROGRAM, Answer, environment, service_record
from tests.pages import parse_page
from tests.schemas import check
from tests.waiting import wait_for

DAY = 86_400.0
LONG_AGO = -400 * DAY
"""Bundles must be older than the time of their analysis."""
NO_IMAGE = (
    "Error: initializing source docker://quay.io/x:1: reading manifest 1 in quay.io/x: manifest unknown"
)
NO_SPACE = "cp: error writing '/var/lib/a': No space left on device"


def bundle(path: Path, *entries: Entry) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(tar(record("bootkube", *entries))))
    return path


def failing(path: Path, message: str, at: float = 0) -> Path:
    return bundle(path, *failed_run(at=LONG_AGO + at, error_message=message))


def healthy(path: Path, at: float = 0) -> Path:
    return bundle(path, entry(at=LONG_AGO + at), entry(Phase.SERVICE_END, LONG_AGO + at + 5))


def triage(*arguments: object, **variables: Any) -> Answer:
    return service_record("triage", *arguments, **variables)


def answered(*arguments: object, status: int = 0, variables: Mapping[str, str] = MappingProxyType({})) -> Any:
    answer = triage(*arguments, "-o", "json", **variables)
    assert answer.status == status, answer.err
    return json.loads(answer.out)


def counts(document: Any) -> dict[str, int]:
    return {cause["cause"]: cause["bundles"] for cause in document["causes"]}


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder with three missing images, one full disk, two unknown failures and one healthy bundle."""
    place = tmp_path / "shelf"
    for n in range(3):
        failing(place / f"image-{n}.tar.gz", NO_IMAGE, n * DAY)
    failing(place / "deep/er/space.tgz", NO_SPACE)
    failing(place / "odd-1.tar.gz", "frobnicate: widget 17 has lost its 4 sprockets")
    failing(place / "odd-2.tar.gz", "frobnicate: gadget 9 has lost its 12 sprockets")
    healthy(place / "good.tar.gz")
    (place / "notes.txt").write_text("no bundle")
    return place


def test_causes_are_counted_and_unknown_lines_grouped(shelf: Path) -> None:
    document = answered(shelf)

    assert counts(document) == {"image-not-found": 3, "disk-full": 1}
    assert [(each["says"], each["bundles"]) for each in document["unknown"]] == [
        ("frobnicate: <*> <number> has lost its <number> sprockets", 2)
    ]
    assert document["verdicts"] == {"failed": 6, "succeeded": 1}
    assert document["causes"][0]["first"] < document["causes"][0]["last"]


def test_table_and_page_have_the_same_causes(shelf: Path) -> None:
    result, page = triage(shelf), triage(shelf, "-o", "html")

    assert "7 bundles of 7 hosts: 6 failed, 1 succeeded" in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    assert "image-not-found" in result.out
    assert "frobnicate" in result.out
    text = parse_page(page.out).text
    assert "6 bundles with trouble among 7 bundles" in text
    assert "image-not-found" in text


@pytest.mark.slow
def test_second_run_judges_only_new_bundles(shelf: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    answered("--index", index, shelf)
    before = {path.name: path.stat().st_mtime_ns for path in index.iterdir()}
    failing(shelf / "late.tar.gz", NO_SPACE + " later")

    document = answered("--index", index, shelf)

    assert counts(document) == {"image-not-found": 3, "disk-full": 2}
    after = {path.name: path.stat().st_mtime_ns for path in index.iterdir()}
    assert before.items() < after.items()
    assert triage("sql", "--index", index, "select count(*) as n from parts").status == 3
    result = triage("sql", "--index", index, "-o", "json", "select count(*) as n from bundles")
    assert json.loads(result.out) == [{"n": 8}]


def test_changed_or_copied_bundle_counts_once(shelf: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    answered("--index", index, shelf)
    (shelf / "copy.tar.gz").write_bytes((shelf / "image-0.tar.gz").read_bytes())
    failing(shelf / "image-1.tar.gz", NO_SPACE + " again")

    assert counts(answered("--index", index, shelf)) == {"image-not-found": 2, "disk-full": 2}


def test_causes_are_marked_new_or_rising(tmp_path: Path) -> None:
    for n in range(25):
        healthy(tmp_path / f"b/old-{n}.tar", n * 3600)
        failing(tmp_path / f"b/new-image-{n}.tar", NO_IMAGE, 30 * DAY + n * 3600)
    failing(tmp_path / "b/old-image.tar", NO_IMAGE)
    failing(tmp_path / "b/new-space.tar", NO_SPACE, 31 * DAY)

    found = {each["cause"]: each for each in answered(tmp_path / "b", "--since", "2025-11-05")["causes"]}

    assert (found["image-not-found"]["new"], found["image-not-found"]["rising"]) == (False, True)
    assert (found["disk-full"]["new"], found["disk-full"]["rising"]) == (True, False)


@pytest.mark.slow
def test_new_causes_are_listed_first(tmp_path: Path) -> None:
    for n in range(3):
        failing(tmp_path / f"b/image-{n}.tar", NO_IMAGE, n * DAY)
    assert "nothing is new or rising: " in triage(tmp_path / "b").out
    failing(tmp_path / "b/odd.tar", "frobnicate: widget 17 has lost its 4 sprockets", 30 * DAY)

    result = triage(tmp_path / "b").out

    new, _, causes = result.partition("\n\nCauses\n")
    assert new.splitlines()[3:5] == [
        "New",
        "    1   25%  frobnicate: widget <number> has lost its <number> sprockets",
    ]
    assert "image-not-found" in causes
    assert causes.partition("No rule knows")[2].splitlines()[1].endswith("  NEW")
    headings = parse_page(triage(tmp_path / "b", "-o", "html").out).texts("h2")
    assert headings[:2] == ["New", "Causes"]


@pytest.mark.slow
def test_causes_missing_in_another_index_are_new(shelf: Path, tmp_path: Path) -> None:
    failing(tmp_path / "other/a.tar", NO_IMAGE)
    answered("--index", tmp_path / "other-index", tmp_path / "other")

    found = answered(shelf, "--against", tmp_path / "other-index")

    assert {each["cause"]: each["new"] for each in found["causes"]} == {
        "image-not-found": False,
        "disk-full": True,
    }
    refused = triage(shelf, "--against", tmp_path / "nothing")
    assert (refused.status, "neither an index nor last-week" in refused.err) == (2, True)


@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 40), st.integers(1, 60))
def test_probability_of_rise_is_fishers_mid_p(now: int, more_now: int, before: int, more_before: int) -> None:
    all_now, all_before = now + more_now, before + more_before
    cases = now + before

    def ways(k: int) -> int:
        return comb(all_now, k) * comb(all_before, cases - k)

    tail = ways(now) / 2 + sum(ways(k) for k in range(now + 1, min(cases, all_now) + 1))
    exact = tail / comb(all_now + all_before, cases)
    assert isclose(compute_probability_of_rise(now, all_now, before, all_before), exact, rel_tol=1e-6)


def test_false_rises_are_rare() -> None:
    """Of twenty causes, three rise from 2 % to 9 %. Most of these must be found, and few others."""
    chance = random.Random(5)
    found = 0
    false_shares = []
    for _ in range(200):
        probabilities = []
        for cause in range(20):
            before = sum(chance.random() < (0.02 if cause < 3 else 0.05) for _ in range(300))
            now = sum(chance.random() < (0.09 if cause < 3 else 0.05) for _ in range(100))
            probabilities.append(compute_probability_of_rise(now, 100, before, 300))
        limit = find_significance_limit(probabilities)
        found += sum(one <= limit for one in probabilities[:3])
        marked = sum(one <= limit for one in probabilities)
        false_shares.append(sum(one <= limit for one in probabilities[3:]) / max(marked, 1))
    assert found > 0.6 * 600
    assert sum(false_shares) / len(false_shares) < 0.1


@pytest.mark.slow
def test_bundles_of_a_cause_are_listed(shelf: Path) -> None:
    result = triage(shelf, "--cause", "image-not-found", "-o", "json")
    assert [Path(row["uri"]).name for row in json.loads(result.out)] == [
        f"image-{n}.tar.gz" for n in (2, 1, 0)
    ]
    by_words = json.loads(triage(shelf, "--cause", "frobnicate", "-o", "json").out)
    assert {Path(row["uri"]).name for row in by_words} == {"odd-1.tar.gz", "odd-2.tar.gz"}
    assert "no bundle has the cause nothing" in triage(shelf, "--cause", "nothing").out


def test_example_of_equal_times_is_the_first_by_name(tmp_path: Path) -> None:
    """Otherwise the answer about one index could differ from run to run."""
    index = tmp_path / "index"
    for name in ("b", "c", "a"):
        answer = answered("--index", index, failing(tmp_path / f"{name}.tar.gz", f"{NO_SPACE} {name}"))
    (cause,) = answer["causes"]
    assert Path(cause["example"]).name == "a.tar.gz"
    assert cause["line"].endswith(" a")


def test_each_host_of_a_cluster_archive_has_a_row(tmp_path: Path) -> None:
    def host(message: str) -> bytes:
        return gzip.compress(tar(record("bootkube", *failed_run(error_message=message))))

    logs = tar(
        member("cluster_events.json", b"[]"),
        member("prod_bootstrap_m0.tar.gz", host(NO_IMAGE)),
        member("prod_master_m1.tar.gz", host(NO_SPACE)),
    )
    (tmp_path / "cluster.tar").write_bytes(logs)

    answered("--index", tmp_path / "index", tmp_path / "cluster.tar")

    query = "select cluster, role, host, cause from bundles order by host"
    result = triage("sql", "--index", tmp_path / "index", "-o", "csv", query)
    assert list(csv.reader(io.StringIO(result.out))) == [
        ["cluster", "role", "host", "cause"],
        ["prod", "bootstrap", "m0", "image-not-found"],
        ["prod", "master", "m1", "disk-full"],
    ]


def test_row_has_facts_about_the_host(tmp_path: Path) -> None:
    files = {
        "network/hostname.txt": "m7.lab\n",
        "system/os-release.txt": 'ID="rhcos"\nVERSION_ID="4.20"\n',
        "system/kernel-command-line.txt": "quiet ignition.platform.id=metal ip=dhcp\n",
        "system/hardware-vendor.txt": "Dell Inc.\n",
        "system/hardware-model.txt": "PowerEdge R640\n",
    }
    entries = failed_run(error_message=NO_SPACE, stage="pull")
    members = [member(f"bootstrap/{path}", text.encode()) for path, text in files.items()]
    content = gzip.compress(tar(record("bootkube", *entries), *members))
    (tmp_path / "m7.tar.gz").write_bytes(content)

    answered("--index", tmp_path / "index", tmp_path / "m7.tar.gz")

    result = triage("sql", "--index", tmp_path / "index", "-o", "json", "select * from bundles")
    (row,) = json.loads(result.out)
    expected = {
        "host": "m7.lab",
        "cluster": "",
        "release": "rhcos 4.20",
        "role": "bootstrap",
        "platform": "metal",
        "hardware": "Dell Inc. PowerEdge R640",
        "boots": 1,
        "verdict": "failed",
        "cause": "disk-full",
        "rank": "cause",
        "service": "bootkube",
        "stage": "pull",
        "line": NO_SPACE,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["since"] <= row["latest"]
    assert row["signature"]


def test_unreadable_bundles_are_listed_and_others_judged(shelf: Path) -> None:
    (shelf / "page.tar.gz").write_text("<html>502 Bad Gateway</html>")
    (shelf / "empty.tar.gz").write_bytes(b"")
    (shelf / "cut.tar.gz").write_bytes((shelf / "good.tar.gz").read_bytes()[:40])

    document = answered(shelf, status=3)

    assert document["verdicts"]["failed"] == 6
    reasons = {Path(each["bundle"]).name: each["reason"] for each in document["unreadable"]}
    assert set(reasons) == {"page.tar.gz", "empty.tar.gz", "cut.tar.gz"}
    assert "looks like HTML" in reasons["page.tar.gz"]
    assert all(reasons.values())
    assert "Not judged" in triage(shelf).out


def test_bundle_name_that_is_not_utf8_is_judged(tmp_path: Path) -> None:
    failing(tmp_path / "b/plain.tar.gz", NO_SPACE)
    (tmp_path / "b/plain.tar.gz").rename(os.fsdecode(os.fsencode(tmp_path) + b"/b/caf\xe9.tar.gz"))
    (cause,) = answered(tmp_path / "b")["causes"]
    assert cause["example"].endswith("/caf\\xe9.tar.gz")


def test_truncated_bundle_without_trouble_is_not_judged(tmp_path: Path) -> None:
    log = member("bootstrap/journals/journal.log", random.Random(1).randbytes(50_000).hex().encode())
    record_ = record("bootkube", entry(at=LONG_AGO), entry(Phase.SERVICE_END, LONG_AGO + 5))
    failure = record("bootkube", *failed_run(at=LONG_AGO, error_message=NO_SPACE))
    for name, first in (("good", record_), ("bad", failure)):
        whole = gzip.compress(tar(first, log))
        write(tmp_path / f"{name}.tar.gz", whole[: len(whole) * 6 // 10])

    document = answered(tmp_path, status=3)

    (unread,) = document["unreadable"]
    assert unread["bundle"].endswith("/good.tar.gz")
    assert "no end" in unread["reason"]
    assert counts(document) == {"disk-full": 1}
    assert [Path(each["bundle"]).name for each in document["incomplete"]] == ["bad.tar.gz"]


def test_truncated_cluster_archive_names_missing_hosts(tmp_path: Path) -> None:
    host = gzip.compress(tar(record("bootkube", *failed_run(at=LONG_AGO, error_message=NO_SPACE))))
    filler = member("prod_master_m2.tar.gz", random.Random(1).randbytes(50_000))
    whole = tar(member("prod_master_m1.tar.gz", host), filler)
    write(tmp_path / "cluster.tar", whole[: len(whole) // 2])

    document = answered(tmp_path, status=3)

    assert counts(document) == {"disk-full": 1}
    assert any("are missing" in each["reason"] for each in document["unreadable"])


def test_folder_of_several_hosts_is_judged_host_by_host(tmp_path: Path) -> None:
    for name, message in (("a", NO_SPACE), ("b", NO_IMAGE)):
        lines = b"".join(each.to_line() for each in failed_run(at=LONG_AGO, error_message=message))
        write(tmp_path / f"case/{name}/bootstrap/services/bootkube.json", lines)
    assert counts(answered(tmp_path / "case")) == {"disk-full": 1, "image-not-found": 1}


def test_wrong_clock_is_marked_and_left_out_of_trends(tmp_path: Path) -> None:
    for n in range(5):
        failing(tmp_path / f"b/image-{n}.tar", NO_IMAGE, n * DAY)
    failing(tmp_path / "b/space.tar", NO_SPACE, 20 * DAY)
    failing(tmp_path / "b/future.tar", NO_IMAGE, 4000 * DAY)
    failing(tmp_path / "b/past.tar", NO_IMAGE, -20_000 * DAY)

    document = answered(tmp_path / "b")

    assert {Path(each["bundle"]).name for each in document["wrongClocks"]} == {"future.tar", "past.tar"}
    assert {each["cause"]: each["new"] for each in document["causes"]} == {
        "image-not-found": False,
        "disk-full": True,
    }
    assert document["since"].startswith("2025-10-30")
    assert "Wrong clocks" in triage(tmp_path / "b").out


def named_host(name: str, *, message: str = NO_SPACE, at: float = 0) -> bytes:
    hostname = member("bootstrap/network/hostname.txt", f"{name}\n".encode())
    return tar(record("bootkube", *failed_run(at=LONG_AGO + at, error_message=message)), hostname)


@pytest.mark.slow
def test_rising_counts_hosts_and_not_their_bundles(tmp_path: Path) -> None:
    for n in range(60):
        healthy(tmp_path / f"old-{n}.tar", n)
        healthy(tmp_path / f"new-{n}.tar", 20 * DAY + n)
    for n in range(12):
        write(tmp_path / f"repeated-{n}.tar", named_host("m1.lab", message=NO_IMAGE, at=20 * DAY + n))
        write(tmp_path / f"spread-{n}.tar", named_host(f"s{n}.lab", at=20 * DAY + n))
    write(tmp_path / "before-1.tar", named_host("m1.lab", message=NO_IMAGE))
    write(tmp_path / "before-2.tar", named_host("s20.lab"))

    found = {each["cause"]: each for each in answered(tmp_path)["causes"]}

    assert (found["image-not-found"]["rising"], found["image-not-found"]["hosts"]) == (False, 1)
    assert (found["disk-full"]["rising"], found["disk-full"]["now"]) == (True, 12)
    assert found["disk-full"]["probability"] < 0.01
    text = " ".join(triage(tmp_path).out.split())
    assert re.search(r"1 of 62 hosts before, 12 of 73 now: 10\.2 times as frequent \(by chance alone: ", text)


def test_errors_of_hosts_that_succeeded_are_listed(tmp_path: Path) -> None:
    journal = "".join(
        f"2025-10-17T00:00:{n:02d}+00:00 h frob.sh[8]: Error: frobnicator cannot find its sprocket\n"
        for n in range(3)
    )
    done = record("bootkube", entry(at=LONG_AGO), entry(Phase.SERVICE_END, LONG_AGO + 5))
    write(tmp_path / "a.tar", tar(done, member("bootstrap/journals/journal.log", journal.encode())))
    document = answered(tmp_path)
    assert document["verdicts"] == {"succeeded": 1}
    assert ["sprocket" in each["says"] for each in document["unexpected"]] == [True]
    assert "sprocket" in triage(tmp_path).out


def test_one_bundle_in_five_forms_counts_once(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    whole = named_host("m1.lab")
    write(folder / "plain.tar", whole)
    write(folder / "packed.tar.gz", gzip.compress(whole, 1))
    write(folder / "again.tgz", gzip.compress(whole, 9))
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        extract_all(archive, folder / "unpacked")
    (tmp_path / "link").symlink_to(folder)

    document = answered(
        "--index", tmp_path / "i", folder, tmp_path / "link", folder / "../b", folder / "plain.tar"
    )

    assert document["bundles"] == 1
    assert counts(document) == {"disk-full": 1}
    same = {document["causes"][0]["example"], *(each["bundle"] for each in document["copies"])}
    assert same == {str(path) for path in folder.iterdir()}  # each copy is named
    assert {each["original"] for each in document["copies"]} == {document["causes"][0]["example"]}


def test_wrong_comparison_is_refused_before_anything_is_judged(shelf: Path, tmp_path: Path) -> None:
    answer = triage("--index", tmp_path / "i", "--against", tmp_path / "nothing", shelf)
    assert (answer.status, "neither an index nor last-week" in answer.err) == (2, True)
    assert not (tmp_path / "i").exists()


def test_host_in_two_archives_counts_once(tmp_path: Path) -> None:
    host = gzip.compress(named_host("m1.lab"))
    write(tmp_path / "cluster.tar", tar(member("./prod_master_m1.tar.gz", host)))
    write(tmp_path / "m1.tar.gz", host)
    assert answered(tmp_path)["bundles"] == 1


def test_unpacked_bundle_is_judged_again_when_its_record_changed(tmp_path: Path) -> None:
    path = tmp_path / "b/host/bootstrap/services/bootkube.json"
    write(path, b"".join(each.to_line() for each in failed_run(at=LONG_AGO, error_message=NO_SPACE)))
    assert counts(answered("--index", tmp_path / "i", tmp_path / "b")) == {"disk-full": 1}
    write(path, b"".join(each.to_line() for each in failed_run(at=LONG_AGO, error_message=NO_IMAGE)))
    assert counts(answered("--index", tmp_path / "i", tmp_path / "b")) == {"image-not-found": 1}


def test_invalid_index_files_are_left_out(shelf: Path, tmp_path: Path) -> None:
    index = tmp_path / "i"
    answered("--index", index, shelf)
    whole = next(index.glob("*.parquet"))
    (index / "empty.parquet").write_bytes(b"")
    data = bytearray(whole.read_bytes())
    data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
    (index / "holes.parquet").write_bytes(data)
    parquet.write_table(pa.table({"a": [1]}), index / "foreign.parquet")

    answer = triage("--index", index, shelf, "-o", "json")

    assert (answer.status, json.loads(answer.out)["bundles"]) == (0, 7)
    warned = {line.partition(".parquet:")[0].rpartition("/")[2] for line in answer.err.splitlines()}
    assert warned == {"empty", "holes", "foreign"}
    assert triage("sql", "--index", index, "select count(*) from bundles").out.split()[-1] == "7"


@pytest.mark.slow
def test_full_disk_names_the_index(shelf: Path, tmp_path: Path) -> None:
    limits = ["prlimit", "--fsize=1000:1000"]
    command = [*limits, *PROGRAM, "triage", "--index", str(tmp_path / "i"), str(shelf)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert f"{tmp_path / 'i'}: " in done.stderr
    assert "make room" in done.stderr
    assert not list((tmp_path / "i").iterdir())
    assert answered("--index", tmp_path / "i", shelf)["bundles"] == 7


def test_query_answers_of_every_type_are_json(shelf: Path, tmp_path: Path) -> None:
    answered("--index", tmp_path / "i", shelf)

    def ask(query: str) -> Answer:
        return triage("sql", "--index", tmp_path / "i", "-o", "json", query)

    values = "max(latest) - min(latest) a, 1.5 b, date '2026-01-02' c, [1] d, 'nan'::double e"
    assert json.loads(ask(f"select {values} from bundles").out) == [
        {"a": 2 * DAY + 5, "b": 1.5, "c": "2026-01-02", "d": [1], "e": None}
    ]
    empty = ask("")
    assert (empty.status, empty.err.count("\n")) == (3, 1)
    assert "the query has no answer" in empty.err


@pytest.mark.slow
def test_since_limits_the_comparison_with_another_index(tmp_path: Path) -> None:
    failing(tmp_path / "other/a.tar", NO_IMAGE)
    failing(tmp_path / "b/space.tar", NO_SPACE)
    failing(tmp_path / "b/image.tar", NO_IMAGE, 50 * DAY)
    answered("--index", tmp_path / "i", tmp_path / "other")
    against = ("--against", tmp_path / "i")

    def new(*arguments: object) -> set[str]:
        return {each["cause"] for each in answered(*arguments)["causes"] if each["new"]}

    assert new(tmp_path / "b", *against) == {"disk-full"}
    assert new(tmp_path / "b", *against, "--since", "2025-11-20") == set()
    assert "all bundles, against" in triage(tmp_path / "b", *against).out


@pytest.mark.slow
def test_printed_words_of_a_cause_find_its_bundles(shelf: Path) -> None:
    document = answered(shelf)
    printed = [each["says"] for each in (*document["causes"], *document["unknown"])]
    found = [json.loads(triage(shelf, "--cause", words, "-o", "json").out) for words in printed]
    assert [len(rows) for rows in found] == [3, 1, 2]


def test_object_store_needs_a_bucket() -> None:
    answer = triage("s3://")
    assert (answer.status, "no bucket is named" in answer.err) == (3, True)


def test_answer_fits_its_schema(shelf: Path) -> None:
    (shelf / "empty.tar.gz").write_bytes(b"")
    index = shelf.parent / "index"
    check(answered("--index", index, shelf, status=3), "triage")
    for line in triage("--index", index, "-o", "jsonl").out.splitlines():
        check(json.loads(line), "triage", "line")
    (row, *_) = json.loads(triage("--index", index, "--cause", "disk-full", "-o", "json").out)
    check(row, "triage", "row")
    for form in ("yaml", "html"):
        assert triage("sql", "--index", index, "-o", form, "select uri from bundles").status == 0


def write(place: Path, content: str | bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)


def disk_error(disk: str) -> str:
    return DISK_ERROR.replace("sda1", disk)


DISK_ERROR = "Mar 02 09:00:01 node7 kernel: EXT4-fs error (device sda1): ext4_find_entry: bad lblock 0\n"


@pytest.mark.slow
def test_mixed_folder_is_judged_or_named_item_by_item(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    failing(folder / "bundle.tar.gz", NO_SPACE)
    (folder / "bundle.dat").write_bytes((folder / "bundle.tar.gz").read_bytes())
    write(folder / "node7-journal.txt", disk_error("sda2"))
    write(folder / "sos/sosreport-a/sos_commands/logs/journalctl_--boot", disk_error("sdb2"))
    write(folder / "case/messages.1", disk_error("sdc2"))
    write(folder / "case/kern.txt", disk_error("sdd2"))
    write(folder / "copied/log/syslog", disk_error("sde2"))
    write(folder / "records/bootkube.json", b"".join(each.to_line() for each in failed_run()))
    write(folder / "readme.md", "These are the cases of March.\n")
    write(folder / "page.html", "<html></html>")
    write(folder / "photo.jpg", b"\xff\xd8\xff" + bytes(range(256)))
    (folder / "link").symlink_to("readme.md")

    document = answered("--index", tmp_path / "index", folder)
    assert {Path(each["file"]).name: each["reason"].partition(",")[0] for each in document["skipped"]} == {
        "readme.md": "plain text",
        "page.html": "neither a bundle nor a log: HTML",
        "photo.jpg": "neither a bundle nor a log: binary data",
        "link": "a symbolic link",
    }
    assert document["unreadable"] == []
    rows = triage("sql", "--index", tmp_path / "index", "-o", "json", "select uri from bundles").out
    found = {str(Path(each["uri"]).relative_to(folder)) for each in json.loads(rows)}
    bundles = {"bundle.tar.gz", "bundle.dat"}
    assert found - bundles == {"node7-journal.txt", "sos/sosreport-a", "case", "copied/log", "records"}
    assert len(found & bundles) == 1  # a copy does not count
    text = triage(folder).out
    assert "Skipped" in text
    assert "readme.md:plaintext,perhapsnotalog" in "".join(text.split())


def test_source_without_anything_to_judge_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    empty = triage(folder)
    assert (empty.status, empty.err) == (3, f"Error: nothing to judge in {folder}: no files there\n")
    write(folder / "readme.md", "These are the cases of March.\n")
    result = triage(folder)
    assert (result.status, result.err.count("\n")) == (3, 1)
    assert "1 file was skipped, the first of them" in result.err
    assert triage(folder / "readme.md").status == 0


@pytest.mark.slow
def test_unreadable_directory_is_listed_as_not_judged(tmp_path: Path) -> None:
    failing(tmp_path / "bundle.tar.gz", NO_SPACE)
    (tmp_path / "lost+found").mkdir(mode=0)
    rights = "-dac_override,-dac_read_search"
    unprivileged = (
        ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"] if os.geteuid() == 0 else []
    )
    command = [*unprivileged, *PROGRAM, "triage", str(tmp_path), "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=False, env=environment())
    unread = json.loads(done.stdout)["unreadable"]
    assert unread == [{"bundle": str(tmp_path / "lost+found"), "reason": "Permission denied"}]
    assert done.returncode == 3


def test_hosts_without_a_cause_are_grouped_by_unusual_lines(tmp_path: Path) -> None:
    for number in range(3):
        line = f"frob.sh[8{number}]: Error: frobnicator {number} cannot find its sprocket"
        write(tmp_path / f"node{number}.txt", f"Mar 02 09:00:01 node{number} systemd[1]: Started a.\n" * 5)
        with (tmp_path / f"node{number}.txt").open("a") as file:
            file.write(f"Mar 02 09:00:02 node{number} {line}\n")
            file.write(
                f"Mar 02 09:00:02 node{number} systemd[1]: frob.service: Failed with result 'exit-code'.\n"
            )
    document = answered(tmp_path)
    (group,) = document["unknown"]
    assert (group["bundles"], "cannot find its sprocket" in group["says"]) == (3, True)


def test_triage_judges_a_log_like_analyze(tmp_path: Path) -> None:
    journal = tmp_path / "out.txt"
    write(journal, DISK_ERROR)
    analysed = json.loads(service_record("analyze", "-o", "json", journal).out)
    (row,) = judge_path(str(journal), Reference(str(journal)))
    assert (row.verdict, row.says) == (analysed["verdict"], analysed["says"])


@pytest.mark.slow
def test_rules_are_compiled_before_the_first_bundle() -> None:
    """Otherwise the process of each bundle compiles them again, which took three quarters of its time."""
    program = (
        "from service_record.triage import judge; judge._warm_up();"
        "print('_automaton' in vars(judge.built_in_causes().book.patterns))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"memory_bytes": 180 << 20}, {"cpu_seconds": 1}], ids=["memory", "time"])
def test_bundle_over_a_limit_has_a_reason(tmp_path: Path, limits: dict[str, int]) -> None:
    # An unknown field makes the reader parse lines one by one, which is slow.
    large = b"".join(entry(at=n, stage=f"s{n}", extra={"more": n}).to_line() for n in range(1000)) * 200
    path = tmp_path / "large.tar.gz"
    records = (member(f"bootstrap/services/{name}.json", large) for name in "abc")
    path.write_bytes(gzip.compress(tar(*records), 1))

    (row,) = json.loads(answer(JudgeRequest(Reference(str(path)), os.fsencode(path), **limits)))

    assert row["verdict"] == "unreadable"
    assert re.fullmatch(r"not judged: it takes more than .+ (memory|s|MiB of memory)", row["left_out"])


@pytest.mark.slow
def test_killed_judge_process_is_restarted(shelf: Path, tmp_path: Path) -> None:
    for n in range(40):
        failing(shelf / f"more-{n}.tar.gz", NO_SPACE, n + 1)
    command = [*PROGRAM, "triage", "--workers", "2", "--index", tmp_path / "index", shelf, "-o", "json"]
    with program(command) as running:
        killed: set[int] = set()
        until = time.monotonic() + 60
        while len(killed) < 2 and running.poll() is None and time.monotonic() < until:
            for pid in set(_children(running.pid)) - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            time.sleep(0.05)
        out, _ = running.communicate(timeout=120)
    assert killed
    assert sum(json.loads(out)["verdicts"].values()) == 47
    assert json.loads(out)["unreadable"] == []


def _children(pid: int) -> list[int]:
    """Return the process ids of all children of a process. Any of its threads may have started them."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += [int(child) for child in children.read_text().split()]
    return found


def test_index_has_no_secrets(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    failing(tmp_path / "b/a.tar", f"Error: cannot log in with {secret}: denied")

    answered("--index", tmp_path / "index", tmp_path / "b")

    result = triage("sql", "--index", tmp_path / "index", "select line, says, signature from bundles")
    assert "cannot log in with" in result.out
    assert secret not in result.out


def test_query_cannot_read_local_files(shelf: Path, tmp_path: Path) -> None:
    answered("--index", tmp_path / "index", shelf)
    for query in ("select * from read_csv('/etc/passwd')", "copy bundles to '/tmp/x.csv'"):
        refused = triage("sql", "--index", tmp_path / "index", query)
        assert (refused.status, refused.out) == (3, "")
        assert "the query failed" in refused.err
    assert "name the index to ask" in triage("sql", "select 1").err


def test_csv_escapes_spreadsheet_formulas(tmp_path: Path) -> None:
    failing(tmp_path / "a.tar", "=cmd|' /C calc'!A0 failed")
    rows = list(csv.DictReader(io.StringIO(triage(tmp_path / "a.tar", "-o", "csv").out)))
    assert rows[0]["line"].startswith("'=cmd")


def test_sources_may_be_folders_files_patterns_or_unpacked_bundles(shelf: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked/log-bundle-1/bootstrap/services"
    unpacked.mkdir(parents=True)

    assert len(list(find_references(str(shelf)))) == 7
    assert len(list(find_references(str(shelf / "good.tar.gz")))) == 1
    assert len(list(find_references(str(shelf / "image-*.tar.gz")))) == 3
    assert [each.uri for each in find_references(str(tmp_path / "unpacked"))] == [
        str(tmp_path / "unpacked/log-bundle-1")
    ]
    refused = triage(tmp_path / "nothing-here")
    assert (refused.status, "no such file or directory" in refused.err) == (3, True)
    assert triage().status == 2


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """The environment variables for a local S3 service with an empty bucket `shelf`."""
    service = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    service.start()
    host, port = service.get_host_and_port()
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/shelf", method="PUT"))
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    service.stop()


@pytest.mark.slow
def test_object_store_holds_bundles_and_index(shelf: Path, s3: dict[str, str]) -> None:
    for path in shelf.glob("image-*"):
        place = f"{s3['AWS_ENDPOINT_URL']}/shelf/2026/{path.name}"
        kind = {"Content-Type": "application/gzip"}
        urllib.request.urlopen(
            urllib.request.Request(place, path.read_bytes(), kind, method="PUT"), timeout=30
        )

    for _ in range(2):
        document = answered("--index", "s3://shelf/index", "s3://shelf/2026", variables=s3)
        assert counts(document) == {"image-not-found": 3}
    result = triage(
        "sql", "--index", "s3://shelf/index", "-o", "json", "select count(*) n from bundles", **s3
    )
    assert json.loads(result.out) == [{"n": 3}]


_DASK = """
import os, sys, threading
from importlib import import_module

threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
import_module("distributed.cli." + sys.argv.pop(1)).main()
"""
"""The program exits when its standard input is closed, so it never outlives the tests."""


@contextlib.contextmanager
def dask(name: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of Dask until the end of the block, or of the tests."""
    command = [sys.executable, "-c", _DASK, name, "--no-dashboard", *map(str, arguments)]
    with program(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        yield running


@contextlib.contextmanager
def program(command: Sequence[object], **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block, and kill it if the test fails."""
    running: subprocess.Popen[bytes]
    with subprocess.Popen(
        list(map(str, command)), env=environment(), stdout=subprocess.PIPE, **how
    ) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.slow
def test_dask_result_is_complete_when_workers_die(tmp_path: Path) -> None:
    """The first two workers are killed while they analyze their first bundles, and then replaced."""
    for n in range(60):
        failing(tmp_path / f"b/{n}.tar.gz", NO_IMAGE if n % 2 else NO_SPACE, n)
    place = tmp_path / "scheduler.json"
    with contextlib.ExitStack() as running:
        scheduler = dask("dask_scheduler", "--port", 0, "--host", "127.0.0.1", "--scheduler-file", place)
        running.enter_context(scheduler)
        wait_for(lambda: place.exists() and place.read_text().endswith("}"))
        address = json.loads(place.read_text())["address"]

        def worker() -> subprocess.Popen[bytes]:
            return running.enter_context(dask("dask_worker", "--nthreads", 1, "--no-nanny", address))

        workers = [worker(), worker()]
        command = [*PROGRAM, "triage", "--index", tmp_path / "index", "--on", address, tmp_path / "b"]
        asked = running.enter_context(program([*command, "-o", "json"]))
        for victim in workers:
            wait_for(partial(_children, victim.pid))  # the program that judges its bundles
            victim.kill()
            victim.wait()
            worker()
        out, _ = asked.communicate(timeout=120)
    assert counts(json.loads(out)) == {"image-not-found": 30, "disk-full": 30}
    result = triage("sql", "--index", tmp_path / "index", "select count(*), count(distinct uri) from bundles")
    assert result.out.splitlines()[1].split() == ["60", "60"]


def test_rows_survive_a_json_round_trip() -> None:
    import msgspec  # only here

    rows = (BundleRow(key="k", uri="u", stages={"a/b": 1.5}),)
    assert msgspec.json.decode(msgspec.json.encode(rows), type=tuple[BundleRow, ...]) == rows
