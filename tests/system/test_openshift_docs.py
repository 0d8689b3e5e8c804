"""The commands of docs/openshift.md replace upstream's shim on a running host by ours, and restore it."""

import re
import shutil
import textwrap
from pathlib import Path

import pytest

from service_record.version import __version__
from testing.machine import REPOSITORY, Machine
from tests.bootstrap_host import PATTERNS
from tests.upstream_reader import UpstreamReader

PAGE = (REPOSITORY / "docs" / "openshift.md").read_text()
PUT_THERE, GO_BACK = (
    re.search(rf"^##+ {heading}\n.*?^```bash\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]  # type: ignore[index]
    for heading in ("On a running host", "Going back")
)
((MANAGERS_FILE, MANAGERS_TEXT),) = re.findall(r"^ +# (/etc/\S+)\n((?: +.*\n)+)", PAGE, re.MULTILINE)

JOB = """\
#!/usr/bin/env bash
set -euo pipefail
. /usr/local/bin/bootstrap-service-record.sh
"""
UNIT = ("Type=oneshot", "Environment=SERVICE_NAME=%N")
# The host's programs, including upstream's shim, are in a writable directory.
SET_UP = """\
set -e
cp -a /usr/local/bin /run/programs
mount -t tmpfs tmpfs /usr/local/bin
cp -a /run/programs/. /usr/local/bin
chmod 0555 /usr/local/bin/rewriting.sh
cp -p /usr/local/bin/rewriting.sh /usr/local/bin/bootstrap-service-record.sh
cd /src
"""
SCENARIO = f"""\
{SET_UP}
systemctl start release-image
systemctl start --no-block bootkube
until [[ -e /run/bootkube ]]; do sleep 0.02; done
{PUT_THERE}
stat --format='%a %n' /usr/local/bin/bootstrap-service-record.sh
cmp shell/bootstrap-service-record.sh /usr/local/bin/bootstrap-service-record.sh
systemctl stop bootkube
systemctl start release-image approve-csr progress
cp -r /var/log/openshift /observed/recorded
{GO_BACK}
cmp /run/programs/rewriting.sh /usr/local/bin/bootstrap-service-record.sh
find /etc/systemd/system -name '*service-record*'
stat --format='%a %n' /var/log/openshift /var/log/openshift/progress.json
systemctl start release-image approve-csr progress
echo done
"""

pytestmark = pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    shared_machine.program("rewriting.sh", (PATTERNS / "rewriting.sh").read_text())
    shared_machine.program("job.sh", JOB)
    shared_machine.program("bootkube.sh", JOB + "touch /run/bootkube\nsleep infinity\n")
    for unit in ("release-image", "approve-csr"):
        shared_machine.unit(unit, *UNIT, "ExecStart=/usr/local/bin/job.sh")
    shared_machine.unit("bootkube", *UNIT, "ExecStart=/usr/local/bin/bootkube.sh")
    in_lines = "ExecStart=env SERVICE_RECORDS_LAYOUT=lines /usr/local/bin/job.sh"
    shared_machine.unit("progress", *UNIT, in_lines)
    return shared_machine


@pytest.fixture(scope="module")
def output(machine: Machine) -> list[str]:
    return machine.boot(SCENARIO).splitlines()


@pytest.fixture(scope="module")
def saved_records(output: list[str], shared_machine: Machine) -> Path:
    """Return a copy of the records from before upstream's shim was restored."""
    return shared_machine.records.directory.with_name("observed") / "recorded"


def test_commands_replace_and_restore_upstream_shim(output: list[str]) -> None:
    assert output == [
        "555 /usr/local/bin/bootstrap-service-record.sh",
        "755 /var/log/openshift",
        "644 /var/log/openshift/progress.json",
        "done",
    ]


def test_upstream_record_stays_an_array(saved_records: Path) -> None:
    upstream = UpstreamReader.from_directory(saved_records)

    assert [upstream.judge(unit).starts for unit in ("release-image", "approve-csr")] == [2, 1]
    assert upstream.find_failure() == 'bootkube failed at stage ""'
    assert (saved_records / "progress.json").read_bytes().startswith(b'{"timestamp"')


def test_exit_helper_closes_run_of_upstream_shim(
    saved_records: Path,
) -> None:
    assert UpstreamReader.from_directory(saved_records).judge("bootkube").starts == 2


def test_upstream_shim_continues_our_records(output: list[str], machine: Machine) -> None:
    upstream = UpstreamReader.from_directory(machine.records.directory)

    units = ("release-image", "approve-csr", "progress")
    assert [upstream.judge(unit).starts for unit in units] == [3, 2, 2]
    assert all(upstream.judge(unit).successful for unit in units)
    for unit in units:
        assert machine.entries(unit)[-1].uptime is None
        assert [entry.recorder for entry in machine.entries(unit)].count(f"bash/{__version__}") == 1


def test_manager_sets_array_layout_for_old_systemd(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    directory = tmp_path / "configuration"
    directory.mkdir()
    (directory / "some.conf").write_text(textwrap.dedent(MANAGERS_TEXT))
    machine.bind(directory, str(Path(MANAGERS_FILE).parent))
    machine.program("job.sh", JOB)
    machine.unit("job", "Type=oneshot", "ExecStart=/usr/local/bin/job.sh")

    machine.boot("start job")

    assert UpstreamReader.from_directory(machine.records.directory).judge("job").successful
