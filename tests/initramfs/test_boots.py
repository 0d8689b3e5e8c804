"""Boots of a real kernel with an initrd of dracut: what the collector and the real root get from each."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IFDIR, S_IFLNK, S_IFREG
from urllib.parse import urlsplit

import pytest

from service_record.collector.domain.access import TokenKind
from service_record.deploy.initramfs import initramfs_archive, newc_archive
from testing.debian import NoDebianError
from testing.virtual_machine import Images, boot, make_images, read_file
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector
from tests.command_line import service_record
from tests.programs import skip_without

pytestmark = [
    pytest.mark.xdist_group("qemu"),  # one machine runs at a time
    pytest.mark.timeout(1500),  # the first test installs Debian's packages
]
HOST = "node1"
NETWORK = ("rd.neednet=1", "ip=10.0.2.15::10.0.2.2:255.255.255.0::ens3:none")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    if os.geteuid() != 0:
        pytest.skip("needs root, to install a Debian with QEMU into a directory")
    skip_without("debootstrap")
    skip_without("debugfs")
    try:
        return make_images(tmp_path_factory.mktemp("images"))
    except NoDebianError as error:
        pytest.skip(str(error))


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with run_collector(make_collector_settings(tmp_path / "collector")) as running:
        yield running


@pytest.fixture
def host_token(collector: RunningCollector) -> str:
    return collector.client(TokenKind.HOST, HOST).token


def url_for_guest(collector: RunningCollector) -> str:
    """Return the collector's URL as QEMU's guests reach it."""
    return f"http://10.0.2.2:{urlsplit(collector.url).port}"


def failed_steps(collector: RunningCollector) -> list[dict[str, str]]:
    """Return the failed steps that the host has reported."""
    reply = collector.client().get(f"/api/v1/hosts/{HOST}")
    steps = [step for group in reply.json["steps"] for step in group["latest"]] if reply.status == 200 else []
    return [step for step in steps if step["status"] == "failed"]


def unit_archive(name: str, unit: str, wanted_by: str) -> bytes:
    """Return an archive with a unit of systemd that is started by another one."""
    units = "usr/lib/systemd/system"
    return newc_archive(
        [
            (f"{units}/{name}", S_IFREG | 0o644, unit.encode()),
            (f"{units}/{wanted_by}.wants", S_IFDIR | 0o755, b""),
            (f"{units}/{wanted_by}.wants/{name}", S_IFLNK | 0o777, f"../{name}".encode()),
        ]
    )


IGNITION = """\
[Unit]
Description=Ignition (fetch)
DefaultDependencies=no
After=dracut-initqueue.service
Before=initrd-root-fs.target sysroot.mount
OnFailure=emergency.target
OnFailureJobMode=isolate

[Service]
Type=oneshot
ExecStart=/bin/sh -c "echo 'GET https://config.example.net/?token=s3cr3t: attempt #5'; \\
  echo 'failed to fetch config: resource not found'; exit 1"
"""


def test_good_boot_hands_its_record_over(tmp_path: Path, images: Images, collector: RunningCollector) -> None:
    url = f"service_record.url={url_for_guest(collector)}"
    with boot(images, tmp_path, url, f"service_record.host={HOST}", initrd=images.with_module) as running:
        running.wait_for(lambda: False)
    records = tmp_path / "records"
    records.mkdir()
    (records / "initramfs.json").write_bytes(
        read_file(images, running.disk, "/var/log/openshift/initramfs.json")
    )

    answer = service_record("show", "--from", records, "--output", "json")

    (service,) = json.loads(answer.out)["services"]
    (run,) = service["runs"]
    assert (service["service"], run["outcome"]) == ("initramfs", "success")
    stages = {stage["name"]: stage["outcome"] for stage in run["stages"]}
    assert {"dracut-initqueue", "sysroot.mount"} <= stages.keys()
    assert set(stages.values()) == {"success"}
    assert failed_steps(collector) == []


def test_missing_root_device_is_reported(
    tmp_path: Path, images: Images, collector: RunningCollector, host_token: str
) -> None:
    """This initrd has no curl, so the report is sent by bash."""
    settings = {
        "url": url_for_guest(collector).encode() + b"\n",
        "host": HOST.encode() + b"\n",
        "token": host_token.encode() + b"\n",
    }
    arguments = (*NETWORK, "root=/dev/disk/by-label/missing", "rd.retry=2")
    archive = initramfs_archive(settings)
    with boot(images, tmp_path, *arguments, initrd=images.plain, appended=(archive,)) as running:
        running.wait_for(lambda: running.says("service-record: reported to "))

    (step,) = failed_steps(collector)
    assert (step["label"], step["status"]) == ("initramfs", "failed")
    assert "dracut-initqueue" in step["logs"]
    assert "/dev/disk/by-label/missing does not exist" in step["logs"]
    assert host_token not in step["logs"]
    assert running.says("the initramfs failed: dracut-initqueue.service")


def test_failed_ignition_stage_is_reported(
    tmp_path: Path, images: Images, collector: RunningCollector, host_token: str
) -> None:
    url = f"service_record.url={url_for_guest(collector)}"
    arguments = (*NETWORK, url, f"service_record.host={HOST}", f"service_record.token={host_token}")
    archive = unit_archive("ignition-fetch.service", IGNITION, "initrd-root-fs.target")
    with boot(images, tmp_path, *arguments, initrd=images.with_module, appended=(archive,)) as running:
        running.wait_for(lambda: running.says("service-record: reported to "))

    (step,) = failed_steps(collector)
    assert "ignition-fetch.service (exit-code)" in step["logs"]
    assert "failed to fetch config: resource not found" in step["logs"]
    assert "s3cr3t" not in step["logs"]
    assert host_token not in step["logs"]
    assert running.says("the initramfs failed: ignition-fetch.service (exit-code)")


def test_failure_without_network_is_shown_on_the_console(
    tmp_path: Path, images: Images, collector: RunningCollector
) -> None:
    url = f"service_record.url={url_for_guest(collector)}"
    archives = (
        unit_archive("ignition-fetch.service", IGNITION, "initrd-root-fs.target"),
        initramfs_archive({"host": HOST.encode() + b"\n"}),
    )
    with boot(images, tmp_path, url, initrd=images.plain, appended=archives) as running:
        running.wait_for(lambda: running.says("Press Enter for maintenance"))

    assert running.says("the initramfs failed: ignition-fetch.service (exit-code)")
    assert running.says("service-record: | failed to fetch config: resource not found")
    assert running.says("service-record: not reported to http://10.0.2.2")
    assert failed_steps(collector) == []
