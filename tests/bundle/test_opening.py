"""Bundles in the form that upstream's tools read and write."""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.bundle import pack
from service_record.export import to_array
from service_record.history import build_history
from service_record.history.outcome import Outcome
from service_record.read.source import liveness_for, open_source
from service_record.record.entry import Entry, Malformed, Phase
from tests.archives import (
    COMPRESSIONS,
    SERVICES,
    Layout,
    list_left_out,
    list_phases,
    member,
    open_archive,
    record,
    tar,
)
from tests.builders import BOOT_ID, array, entry, failed_run, require, upstream_entry
from tests.strategies import entries

AT = datetime(2026, 11, 21, 2, tzinfo=UTC)
UPSTREAMS_PATH = re.compile(r"/bootstrap/services/([^.]+)\.json$")
UPSTREAMS_TEXTS = {
    *("timestamp", "precommand", "postcommand", "stage"),
    *("phase", "result", "errorline", "errormessage"),
}

compressions = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)


def packed(damaged: Mapping[str, bytes] | None = None, /, **records: Iterable[Entry | Malformed]) -> bytes:
    archive = io.BytesIO()
    copies = {service: BytesIO(copy).getvalue for service, copy in (damaged or {}).items()}
    pack(records.items(), archive, AT, copies)
    return archive.getvalue()


def read_strictly(archive: bytes) -> dict[str, list[dict[str, object]]]:
    """Return the records as upstream's analyzer reads them. It refuses more than necessary."""
    records = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar_file:
        for info in tar_file:
            file = tar_file.extractfile(info)
            if file and (matched := UPSTREAMS_PATH.search(info.name)):
                text = file.read().decode()
                assert text.startswith("[")
                records[matched[1]] = json.loads(text)
    for one in records.values():
        for fields in one:
            assert all(isinstance(found, str) for name, found in fields.items() if is_upstreams(name))
    return records


def is_upstreams(name: str) -> bool:
    """Return True for a field of upstream's. Go ignores the case of field names."""
    return name.casefold() in UPSTREAMS_TEXTS


def test_packed_record_is_a_closed_array_at_upstreams_path() -> None:
    run = failed_run(error_message="no such image")
    assert read_strictly(packed(bootkube=run)) == {"bootkube": [one.to_json() for one in run]}


@pytest.mark.slow
@given(st.lists(entries(), max_size=4))
def test_any_packed_record_satisfies_a_strict_reader(written: list[Entry]) -> None:
    archive = packed(job=written)
    assert len(read_strictly(archive)["job"]) == len(written)
    assert list_phases(open_archive(archive)) == {"job": [one.phase for one in written]}


def test_last_entry_is_the_same_after_packing() -> None:
    (*_, last) = read_strictly(packed(job=failed_run()))["job"]
    assert (last["phase"], last["result"]) == ("service end", "failure")


def test_packing_again_gives_the_same_bytes() -> None:
    assert packed(b=failed_run(), a=[entry()]) == packed(a=[entry()], b=failed_run())


def test_unsafe_service_names_are_made_safe_and_unique() -> None:
    archive = io.BytesIO()
    pack([("kube.let", [entry()]), ("kube_let", []), ("../../etc/x", [])], archive, AT)
    assert sorted(read_strictly(archive.getvalue())) == ["kube_let", "kube_let_", "x"]


def test_unknown_field_that_upstream_would_misread_is_renamed() -> None:
    (fields,) = read_strictly(packed(job=[entry(extra={"STAGE": 3, "Other": 4})]))["job"]
    assert (fields["x-STAGE"], fields["Other"], "STAGE" in fields) == (3, 4, False)


def test_damaged_parts_are_packed_beside_the_record() -> None:
    archive = packed(job=[entry(), Malformed(2, "half an ent", "a damaged entry")])
    assert len(read_strictly(archive)["job"]) == 1
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar_file:
        file = require(tar_file.extractfile("log-bundle-20261121020000/bootstrap/services/job.json.damaged"))
        assert file.read() == b"line 2: a damaged entry\nhalf an ent\n"


@pytest.mark.parametrize(
    "copy", [b"", b"\n", b'{"timest', b"\0\xff\r\n] ", b"[\n{}\n]\n" + b" " * 99], ids=repr
)
def test_damaged_copy_is_packed_unchanged(copy: bytes) -> None:
    bundle = open_archive(packed({"job": copy}, job=failed_run(), other=[entry()]))
    assert {service: one.data for service, one in bundle.damaged.items()} == {"job": copy}
    assert list(bundle.records) == ["job", "other"]
    assert bundle.left_out == ()


def test_new_damage_is_packed_after_earlier_damage() -> None:
    for copy in (b"before", b"before\n"):
        archive = packed({"job": copy}, job=[entry(), Malformed(2, "half an ent", "a damaged entry")])
        assert open_archive(archive).damaged["job"].data == b"before\nline 2: a damaged entry\nhalf an ent\n"


def test_damaged_copy_is_renamed_with_its_record() -> None:
    archive = io.BytesIO()
    copies = {"kube_let": lambda: b"of the other", "gone": lambda: b"of none"}
    pack([("kube.let", [entry()]), ("kube_let", [])], archive, AT, copies)
    bundle = open_archive(archive.getvalue())
    assert {service: one.data for service, one in bundle.damaged.items()} == {"kube_let_": b"of the other"}


@compressions
def test_bundle_is_read_in_each_compression(compress: Callable[[bytes], bytes]) -> None:
    archive = tar(record("bootkube", upstream_entry()), member("log-bundle-1/gather.log", b"..."))
    assert list_phases(open_archive(compress(archive))) == {"bootkube": ["service start"]}
    assert open_archive(compress(archive)).left_out == ()


@pytest.mark.parametrize(
    "below",
    [
        "log-bundle-20261121010510/bootstrap/services",
        "log-bundle-bootstrap/bootstrap/services",
        "./log-bundle-20261121010510/bootstrap/services",
        "bootstrap/services",
        "agent-gather/var/log/openshift",
    ],
)
@pytest.mark.parametrize("layout", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_records_are_found_below_any_directory(below: str, layout: Layout) -> None:
    data = array(entry())
    archive = tar(member(f"{below}/job.json", data, layout=layout, mtime=1795223170.25))
    assert list_phases(open_archive(archive)) == {"job": ["service start"]}


@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["gnu", "pax"])
def test_long_names_are_read_from_extended_headers(layout: Layout) -> None:
    path = "long/" * 60 + f"{SERVICES}/job.json"
    bundle = open_archive(tar(member(path, array(entry()), layout=layout)))
    assert bundle.records["job"].path == path


def test_archive_by_tarfile_is_read() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:xz", format=tarfile.PAX_FORMAT) as tar_file:
        for name in ("gather.log", "ünïcode/bootstrap/services/jöb.json"):
            data = array(entry())
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar_file.addfile(info, io.BytesIO(data))
    assert list_phases(open_archive(archive.getvalue())) == {"jöb": ["service start"]}


@pytest.mark.parametrize("name", ["job.json.bak", ".job.json", "sub/job.json", "job.txt", "job.json/x"])
def test_file_with_another_name_is_not_a_record(name: str) -> None:
    assert open_archive(tar(member(f"{SERVICES}/{name}", array(entry())))).records == {}


def test_unfinished_write_is_recognized() -> None:
    bundle = open_archive(tar(record("job", entry()), member(f"{SERVICES}/job.json.tmp", b"[")))
    assert (list(bundle.records), bundle.unfinished) == (["job"], frozenset({"job"}))


@compressions
def test_bundle_in_an_archive_is_read(compress: Callable[[bytes], bytes]) -> None:
    inner = compress(tar(record("bootkube", entry())))
    archive = tar(member("cluster_bootstrap_host.tar.gz", inner), member("cluster_events.json", b"[]"))
    bundle = open_archive(archive)
    assert list_phases(bundle) == {"bootkube": ["service start"]}
    assert bundle.records["bootkube"].path == f"cluster_bootstrap_host.tar.gz: {SERVICES}/bootkube.json"
    assert bundle.left_out == ()


def test_later_record_is_used_and_the_other_reported() -> None:
    bundle = open_archive(
        tar(record("job", entry()), record("job", entry(Phase.SERVICE_END), below="b/" + SERVICES))
    )
    assert list_phases(bundle) == {"job": ["service end"]}
    assert list_left_out(bundle) == [
        (f"{SERVICES}/job.json", f"a later record of the same service is in b/{SERVICES}/job.json")
    ]


PADDED = b" " * 1000 + b"\n"
START, STAGE, *REST = failed_run()
EARLIER = {
    "upstreams array": array(START, STAGE),
    "our array": b"".join(to_array([START, STAGE])) + PADDED,
    "an entry after our array": b"".join(to_array([START])) + PADDED + STAGE.to_line(),
    "lines": START.to_line() + STAGE.to_line(),
}


@pytest.mark.parametrize("order", [1, -1], ids=["longer last", "longer first"])
@pytest.mark.parametrize("earlier", EARLIER.values(), ids=EARLIER)
def test_longer_of_two_copies_is_used(earlier: bytes, order: int) -> None:
    later = b"".join(to_array([START, STAGE, *REST]))
    copies = [
        member("agent-gather/var/log/openshift/job.json", earlier),
        member(f"{SERVICES}/job.json", later),
    ]
    bundle = open_archive(tar(*copies[::order]))
    assert len(list_phases(bundle)["job"]) == 4
    assert bundle.left_out == ()


@pytest.mark.parametrize(
    ("first", "then", "left_out"),
    [(b"{a", b"{a{b", []), (b"{a{b", b"{a", []), (b"{b", b"{a{b", ["var/log/openshift/job.json.damaged"])],
    ids=["longer last", "longer first", "other"],
)
def test_longer_or_later_damaged_copy_is_used(first: bytes, then: bytes, left_out: list[str]) -> None:
    paths = "var/log/openshift/job.json.damaged", f"{SERVICES}/job.json.damaged"
    bundle = open_archive(tar(*map(member, paths, (first, then))))
    assert bundle.damaged["job"].data == b"{a{b"
    assert [path for path, _ in list_left_out(bundle)] == left_out


def test_compressed_file_without_archive_is_unpacked() -> None:
    for compress in COMPRESSIONS.values():
        if compress is not bytes:
            assert open_archive(compress(array(entry()))).unpacked == array(entry())


def test_concatenated_compressed_streams_are_read(tmp_path: Path) -> None:
    archive = tar(record("job", entry()))
    for name, compress in COMPRESSIONS.items():
        parts = [compress(archive[:700]), compress(archive[700:])]
        assert list_phases(open_archive(b"".join(parts))) == {"job": ["service start"]}, name


def manifest(
    boot_id: object, directory: str = "log-bundle-20261121010510", generator: str = "service-record/0.1.0"
) -> bytes:
    document = {"version": 1, "generator": generator, "bootId": boot_id}
    return member(f"{directory}/manifest.json", json.dumps(document).encode())


NEXT_BOOT = "c1" * 16


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param([manifest(NEXT_BOOT)], NEXT_BOOT, id="names it"),
        pytest.param([], None, id="no manifest"),
        pytest.param([manifest(None)], None, id="unknown"),
        pytest.param([manifest("../x")], None, id="not an id"),
        pytest.param([manifest(NEXT_BOOT, generator="other/1")], None, id="not ours"),
        pytest.param([manifest(NEXT_BOOT, "other")], None, id="beside no record"),
        pytest.param([manifest(NEXT_BOOT), manifest(BOOT_ID, "other")], None, id="two"),
        pytest.param([member("top/manifest.json", b"{")], None, id="torn"),
    ],
)
def test_boot_of_the_bundle_is_read_from_its_manifest(members: list[bytes], expected: str | None) -> None:
    assert open_archive(tar(record("job", entry()), *members)).boot_id == expected


def test_service_of_an_earlier_boot_was_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar"
    for members, expected in (([], Outcome.RUNNING), ([manifest(NEXT_BOOT)], Outcome.INTERRUPTED)):
        path.write_bytes(tar(record("job", entry()), *members))
        source = open_source([str(path)])
        history = build_history(source.records, liveness_for(source))
        assert history.services[0].outcome is expected


def test_records_elsewhere_are_recognized_by_content() -> None:
    archive = tar(
        record("job", *failed_run(), below="copy/of-node7"),
        member("copy/of-node7/settings.json", b'{"phase": "spring"}'),
    )

    assert list(open_archive(archive).records) == ["job"]


def test_records_at_the_usual_path_have_precedence() -> None:
    archive = tar(record("job", entry(), below="old"), record("other", entry()))

    assert list(open_archive(archive).records) == ["other"]
