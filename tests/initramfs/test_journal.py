"""The messages of the initramfs in a real journal; systemd-nspawn stands in for the initramfs."""

import json
from pathlib import Path

import pytest

from testing.machine import Machine, why_not
from tests.programs import REPOSITORY

# Units of the boot itself fail where the machine may give them no credentials: the journal starts after them.
SCENARIO = """\
start early
journalctl --sync
journalctl --quiet --rotate --vacuum-time=1us
mkdir -p /etc/service-record/initramfs
echo http://127.0.0.1:9 >/etc/service-record/initramfs/url
start broken
journalctl --sync
bash /src/shell/initramfs/service-record-initramfs.sh failure
journalctl --sync
journalctl --output=json SERVICE_RECORD_SERVICE=initramfs
"""


def test_failure_is_in_the_journal_with_its_id(tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    machine = Machine(tmp_path)
    machine.unit("early", "Type=oneshot", "ExecStart=/bin/false")
    machine.unit("broken", "Type=oneshot", "ExecStart=/bin/sh -c 'echo no such host; exit 3'")
    output = machine.boot(SCENARIO)
    logged = [json.loads(line) for line in output.splitlines() if line.startswith("{")]

    failed = next(one for one in logged if one["SERVICE_RECORD_RESULT"] == "failed")
    assert failed["MESSAGE"].startswith("the initramfs failed: broken")
    assert (failed["PRIORITY"], failed["SYSLOG_IDENTIFIER"]) == ("3", "service-record")
    assert failed["SERVICE_RECORD_STAGE"] == "broken.service"
    catalog = (REPOSITORY / "units/service-record.catalog").read_text()
    assert all(f"-- {one['MESSAGE_ID']}\n" in catalog for one in logged)
