"""`make demo-collector`, in a short form."""

from pathlib import Path

from demo.cluster import EXPECTED
from demo.collector import collector, provisioned
from demo.fleet import fleet

SECONDS = 8.0


def test_demo_shows_trouble_and_cluster_progress(tmp_path: Path) -> None:
    machines = fleet()
    with collector(tmp_path, budget=SECONDS / 6) as running:
        hosts, verdicts = provisioned(running, machines, SECONDS, patience=120)
        try:
            table = running.hosts().stdout
            of_cluster = running.hosts("--cluster", "prod").stdout
        finally:
            hosts.stop()

    assert verdicts == {machine.name: machine.expected for machine in machines} | dict(EXPECTED)
    assert len(verdicts) == 35
    assert "3 of 3 control-plane hosts and 1 of 2 workers are installed." in of_cluster
    assert "fix boot order" in of_cluster
    assert "node01" not in of_cluster
    for reason in (
        "Disk setup failed: mdadm: no disk for the array: sdb is missing.",
        "Rebooted 5 times during Kickstart download.",
        "Packages started 4 times without progress",
        'since "Packages" started.',
    ):
        assert reason in " ".join(table.split())
