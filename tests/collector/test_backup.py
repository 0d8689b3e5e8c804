"""Back up a running collector, and restore the backup."""

import io
import stat
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from service_record.collector.backup import BackupError, back_up, restore
from service_record.collector.serving_settings import CollectorSettings
from testing.postgresql import Cluster
from tests.collector.commands import collector_command
from tests.collector.serving import Client, make_collector_settings, run_collector


def tar_of(file: Path, **members: bytes | tarfile.TarInfo) -> Path:
    with tarfile.open(file, "w") as tar:
        for name, what in members.items():
            if isinstance(what, tarfile.TarInfo):
                tar.addfile(what)
                continue
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(what)
            tar.addfile(member, io.BytesIO(what))
    return file


def test_restore_contains_everything_acknowledged_before_backup(tmp_path: Path) -> None:
    file, anew = tmp_path / "backup.tar", tmp_path / "anew"
    with run_collector(make_collector_settings(tmp_path)) as server:
        host = server.client("host", "web1")
        upload = tmp_path / "upload"
        upload.write_bytes(b"a bundle")
        server.collector.objects.put("web1/one", upload)
        host.step("web1", "Disk setup", "init")

        made = collector_command("backup", file, "--data", tmp_path / "data")

        assert made.status == 0, made.err
        host.step("web1", "After the backup", "init")

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    done = collector_command("restore", file, "--data", anew / "data")
    assert done.status == 0, done.err
    with run_collector(make_collector_settings(anew)) as server:
        again = Client(server.url, host.token).step("web1", "Disk setup", "done")
        assert (again.status, again.json["id"]) == (201, 2)
        assert b"".join(server.collector.objects.read("web1/one")) == b"a bundle"
        entries = server.client("admin").get("/api/v1/audit").json["entries"]
    assert [entry["action"] for entry in entries] == ["restore"]


def test_backup_and_restore_overwrite_nothing(tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    with run_collector(make_collector_settings(tmp_path)):
        back_up(tmp_path / "data", file)
        with pytest.raises(BackupError, match="nothing is overwritten"):
            back_up(tmp_path / "data", file)
        with pytest.raises(BackupError, match="not empty"):
            restore(file, tmp_path / "data")


def test_backup_without_database_fails(tmp_path: Path) -> None:
    answer = collector_command("backup", tmp_path / "backup.tar", "--data", tmp_path)

    assert answer.status == 3
    assert "pg_dump" in answer.err
    assert not (tmp_path / "backup.tar").exists()


def link() -> tarfile.TarInfo:
    member = tarfile.TarInfo("objects/link")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member


@pytest.mark.parametrize(
    "members",
    [
        {"collector.sqlite": b""},
        {"backup.json": b"{}"},
        {"backup.json": b"{}", "collector.sqlite": b"no database at all, but long enough to be one"},
        {"backup.json": b"{}", "objects__..__..__..__escaped": b"x"},
        {"backup.json": b"{}", "__etc__escaped": b"x"},
        {"backup.json": b"{}", "escaped": b"x"},
        {"backup.json": b"{}", "link": link()},
    ],
    ids=["no manifest", "no database", "damaged", "above", "absolute", "strange", "link"],
)
def test_restoring_an_invalid_backup_leaves_nothing(
    tmp_path: Path, members: dict[str, bytes | tarfile.TarInfo]
) -> None:
    file = tar_of(tmp_path / "backup.tar", **members)

    answer = collector_command("restore", file, "--data", tmp_path / "here" / "data")

    assert answer.status == 3
    assert answer.err.startswith("Error: ")
    assert list((tmp_path / "here").iterdir()) == []
    assert not (tmp_path / "escaped").exists()


def test_truncated_backup_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    with run_collector(make_collector_settings(tmp_path)):
        back_up(tmp_path / "data", file)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(BackupError):
        restore(file, tmp_path / "anew")
    assert not (tmp_path / "anew").exists()


def test_postgresql_dump_restores_everything_acknowledged(
    tmp_path: Path, postgresql_settings: CollectorSettings, cluster: Cluster
) -> None:
    dump = tmp_path / "collector.dump"
    with run_collector(postgresql_settings) as server:
        host = server.client("host", "web1")
        host.step("web1", "Disk setup", "init")
        run(cluster, "pg_dump", "--format=custom", f"--file={dump}", postgresql_settings.database)

    with cluster.database() as url:
        run(cluster, "pg_restore", "--clean", "--if-exists", "--no-owner", f"--dbname={url}", str(dump))
        with run_collector(replace(postgresql_settings, database=url)) as server:
            again = Client(server.url, host.token).step("web1", "Disk setup", "done")
    assert (again.status, again.json["id"], again.json["build"]) == (201, 2, 1)


def run(cluster: Cluster, program: str, *arguments: str) -> None:
    done = subprocess.run(
        [cluster.programs / program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
