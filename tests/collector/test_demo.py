"""`make demo-collector`, in a short form."""

from pathlib import Path

from demo.collector import collector, provisioned
from demo.fleet import fleet

SECONDS = 8.0


def test_the_collector_tells_which_of_thirty_hosts_are_in_trouble_and_how(tmp_path: Path) -> None:
    machines = fleet()
    with collector(tmp_path, budget=SECONDS / 6) as running:
        hosts, told = provisioned(running, machines, SECONDS, patience=120)
        try:
            table = running.hosts().stdout
        finally:
            hosts.stop()

    assert told == {machine.name: machine.expected for machine in machines}
    assert len(told) == 30
    for reason in (
        "Disk setup failed: mdadm: no disk for the array: sdb is missing.",
        "5 boots in a row came no further than Kickstart download.",
        "Packages began 4 times, and nothing new was reported between",
        "after this: Packages began.",
    ):
        assert reason in table
