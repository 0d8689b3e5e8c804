"""The archive for an initrd."""

import gzip
import subprocess
from pathlib import Path

import pytest

from service_record.deploy.initramfs import initramfs_archive, newc_archive
from tests.command_line import service_record
from tests.programs import skip_without


def unpacked(archive: bytes, directory: Path) -> dict[str, Path]:
    skip_without("cpio")
    directory.mkdir()
    subprocess.run(
        ["cpio", "--quiet", "--extract", "--make-directories", "--no-absolute-filenames"],
        input=gzip.decompress(archive),
        cwd=directory,
        check=True,
    )
    return {str(path.relative_to(directory)): path for path in directory.rglob("*")}


def test_cpio_extracts_the_archive(tmp_path: Path) -> None:
    token, certificate = tmp_path / "token", tmp_path / "ca.pem"
    token.write_text("srt_7_x\n")
    certificate.write_text("PEM")
    output = tmp_path / "append.cpio"

    answer = service_record(
        *("initrd", "--url", "http://collector.example.com", "--host", "web1", "--output", output),
        *("--token-file", token, "--ca-file", certificate),
    )

    assert (answer.status, answer.out, answer.err) == (0, "", "")
    files = unpacked(output.read_bytes(), tmp_path / "unpacked")
    settings = "etc/service-record/initramfs"
    assert {name: files[f"{settings}/{name}"].read_text() for name in ("url", "host", "token", "ca.pem")} == {
        "url": "http://collector.example.com\n",
        "host": "web1\n",
        "token": "srt_7_x\n",
        "ca.pem": "PEM",
    }
    assert files[f"{settings}/token"].stat().st_mode & 0o777 == 0o600
    link = files["usr/lib/systemd/system/emergency.target.wants/service-record-initramfs-failure.service"]
    assert link.resolve() == files["usr/lib/systemd/system/service-record-initramfs-failure.service"]


def test_archive_keeps_directories_of_an_initramfs(tmp_path: Path) -> None:
    """Where a directory of the archive is a link in the initramfs, the kernel removes the link."""
    listed = subprocess.run(
        ["cpio", "--quiet", "--list", "--verbose"],
        input=gzip.decompress(initramfs_archive({"url": b"http://h\n"})),
        check=True,
        capture_output=True,
    ).stdout.decode()
    directories = {line.split()[-1] for line in listed.splitlines() if line.startswith("d")}
    assert all("service-record" in name or name.endswith(".wants") for name in directories), directories


@pytest.mark.parametrize("length", range(1, 6))
def test_archive_members_are_aligned(tmp_path: Path, length: int) -> None:
    name, data = "n" * length, b"d" * length
    files = unpacked(
        gzip.compress(newc_archive([(name, 0o100644, data), ("z", 0o100644, data)])), tmp_path / "unpacked"
    )
    assert files[name].read_bytes() == files["z"].read_bytes() == data


def test_unusable_arguments_are_one_error(tmp_path: Path) -> None:
    missing = service_record("initrd", "--token-file", tmp_path / "missing")
    assert missing.status == 3
    assert missing.err.count("\n") == 1
    assert "missing: No such file" in missing.err
    assert service_record("initrd", "--url", "ftp://h").status == 2
    assert service_record("initrd", "--host", "a b").status == 2
