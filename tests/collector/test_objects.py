"""Bundles are stored atomically, in a folder and in an object store."""

import os
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store.objects import NoSuchObject, ObjectError, Objects, new_key, objects
from tests.assisted_rules import AssistedRules
from tests.collector.installing import Agent, map_host
from tests.collector.serving import run_collector

LARGE = 20 * 1024 * 1024  # bytes: an upload of several parts


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Run an S3 service for tests. Yields its URL."""
    service = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    service.start()
    host, port = service.get_host_and_port()
    yield f"http://{host}:{port}"
    service.stop()


@pytest.fixture(params=["folder", "s3"])
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Objects:
    """Empty storage for objects. Each test runs once for each kind of storage."""
    if request.param == "folder":
        return objects(CollectorSettings(data=tmp_path / "data"))
    endpoint: str = request.getfixturevalue("s3")
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"bundles-{os.urandom(4).hex()}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT"))
    return objects(CollectorSettings(data=tmp_path / "data", objects=f"s3://{bucket}/collector"))


def file_of(folder: Path, content: bytes) -> Path:
    path = folder / "upload"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [b"", b"a bundle", os.urandom(LARGE)], ids=["empty", "small", "large"])
def test_object_is_read_unchanged(kept: Objects, tmp_path: Path, content: bytes) -> None:
    key = new_key("web1")

    kept.put(key, file_of(tmp_path, content))

    assert b"".join(kept.read(key)) == content


def test_large_object_is_read_in_pieces(kept: Objects, tmp_path: Path) -> None:
    kept.put("web1/large", file_of(tmp_path, bytes(LARGE)))

    assert max(len(piece) for piece in kept.read("web1/large")) < LARGE / 2


def test_missing_object_cannot_be_read(kept: Objects) -> None:
    with pytest.raises(NoSuchObject, match=r"^web1/gone: no such object$"):
        kept.read("web1/gone")


def test_unreadable_file_leaves_no_object(kept: Objects, tmp_path: Path) -> None:
    with pytest.raises(ObjectError):
        kept.put("web1/gone", tmp_path / "gone")

    assert list(kept.keys_before(inf)) == []


def test_objects_of_all_hosts_are_listed(kept: Objects, tmp_path: Path) -> None:
    for key in ("web1/a", "web1/b", "web10/a"):
        kept.put(key, file_of(tmp_path, b"x"))

    assert sorted(kept.keys_before(inf)) == ["web1/a", "web1/b", "web10/a"]


def test_object_can_be_deleted_twice(kept: Objects, tmp_path: Path) -> None:
    kept.put("web1/a", file_of(tmp_path, b"x"))

    kept.delete(["web1/a"])
    kept.delete(["web1/a", "web1/never"])

    assert list(kept.keys_before(inf)) == []


def test_key_cannot_leave_the_folder(tmp_path: Path) -> None:
    kept = objects(CollectorSettings(data=tmp_path / "data"))

    with pytest.raises(ObjectError):
        kept.put("../../escaped", file_of(tmp_path, b"x"))

    assert not (tmp_path / "escaped").exists()


def test_unreachable_store_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "ftp://nowhere")
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    with pytest.raises(ObjectError) as caught:
        list(objects(CollectorSettings(data=tmp_path, objects="s3://bucket/prefix")).keys_before(inf))

    assert "\n" not in str(caught.value)


def test_client_never_sees_object_store_address(
    sqlite_settings: CollectorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    with run_collector(replace(sqlite_settings, objects="s3://secret-bucket/collector")) as server:
        host = AssistedRules().add_host()
        map_host(server, "web1", host)
        refused = Agent(server.client("host", "web1"), host).upload(b"a bundle")

    assert refused.status == 503
    for word in (b"127.0.0.1", b"secret-bucket", b":9"):
        assert word not in refused.body
