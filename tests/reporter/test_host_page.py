"""Each row of the table in docs/boot-reporter.md: how a host fails to come up, and what its page shows."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from service_record.record import systemd
from service_record.record.entry import Entry, Phase
from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION, Host
from tests.assisted_server import AssistedServer, Authority, CannedResponse, create_server_with_tokens
from tests.builders import entry, failed_run, require, write_lines
from tests.reporting_host import FULL_DISK, POINTER, READ_ONLY_DISK, TOKEN, ReportingHost
from tests.running_server import get_refused_url

PAGE: Final = Path(__file__).parents[2] / "docs" / "boot-reporter.md"
HEAD: Final = "| the host | the page shows | when |\n|---|---|---|\n"
FAILED: Final = f"{LOCAL_IGNITION}. failed: bootkube in stage pull-image"
AWAY: Final = CannedResponse(503, headers={"Retry-After": "0"})


@dataclass
class Scene:
    """A host, its assisted-service, and a directory of the test."""

    host: ReportingHost
    server: AssistedServer
    directory: Path

    @property
    def page(self) -> Host:
        return self.host.installed

    @property
    def console(self) -> str:
        """Return the text above the login prompt; its lines are wrapped."""
        return " ".join(self.host.places.issue.read_text().split())

    def round(self, uptime: int = 60, before: tuple[str, ...] = ()) -> None:
        answer = self.host.report(uptime=uptime, before=before)
        if answer.status == 99:
            pytest.skip("this root may mount nothing")
        assert answer.status == 0, answer.err

    def reboot(self) -> None:
        """Let the reporter take the boot until now for an earlier one."""
        text = self.host.places.state_file.read_text()
        self.host.places.state_file.write_text(text.replace(require(systemd.boot_id()), "e0" * 16))

    def record(self, *entries: Entry) -> None:
        write_lines(self.host.places.records / "bootkube.json", *entries)

    def cross_the_limit(self) -> None:
        """Let the service's own time for the stage pass: the least that a person sees of any host."""
        self.server.rules.advance(minutes=41)
        assert (self.page.stage, self.page.status) == ("Rebooting", "installing-pending-user-action")
        assert "timed out" in self.page.status_info


def never_reports(scene: Scene) -> None:
    scene.cross_the_limit()
    assert scene.page.info == ""


def has_no_network(scene: Scene) -> None:
    scene.host.write_settings(get_refused_url())
    scene.host.fail()
    scene.round()
    assert "failed: bootkube in stage pull-image" in scene.console
    assert "Not reported: " in scene.console
    scene.cross_the_limit()
    assert scene.page.info == ""


def gets_the_network_later(scene: Scene) -> None:
    has_no_network(scene)
    scene.host.write_settings(scene.server.url)
    scene.round(660)
    assert scene.page.info.startswith(FAILED)


def cannot_resolve(scene: Scene) -> None:
    scene.host.write_settings("http://assisted.invalid:8090")
    scene.host.fail()
    scene.round()
    assert "failed: bootkube" in scene.console
    assert "Not reported: " in scene.console
    scene.cross_the_limit()


def distrusts_the_certificate(scene: Scene) -> None:
    certificate = Authority(scene.directory / "authority").issue("127.0.0.1")
    with AssistedServer(scene.server.rules, certificate=certificate) as server:
        scene.host.write_settings(server.url)
        scene.host.fail()
        scene.round()
    assert "failed: bootkube" in scene.console
    assert "certificate" in scene.console
    scene.cross_the_limit()


def has_faulty_settings(scene: Scene) -> None:
    file = scene.host.places.settings_file
    file.write_text(file.read_text().replace("cluster_id", "clusterid"))
    scene.host.fail()
    scene.round()
    assert "failed: bootkube" in scene.console
    assert "Not reported: settings are missing or wrong" in scene.console
    scene.cross_the_limit()


def has_a_wrong_token(scene: Scene) -> None:
    scene.server.rules.tokens.clear()
    scene.host.fail()
    scene.round()
    assert "failed: bootkube" in scene.console
    assert "refuses our token" in scene.console
    scene.cross_the_limit()


def fails(scene: Scene) -> None:
    scene.round()
    assert scene.page.info == LOCAL_IGNITION
    scene.host.fail()
    scene.round(660)
    assert scene.page.info.startswith(FAILED)


def hangs(scene: Scene) -> None:
    boot_id = require(systemd.boot_id())
    started = entry(uptime=10.0, boot_id=boot_id, pid=None)
    scene.record(started, entry(Phase.STAGE_START, stage="wait", uptime=11.0, boot_id=boot_id, pid=None))
    scene.round(660)
    assert scene.page.info == LOCAL_IGNITION
    scene.round(1860)
    assert scene.page.info.startswith(f"{LOCAL_IGNITION}. stuck: bootkube in stage wait")


def loops(scene: Scene) -> None:
    runs = (failed_run("pull", at=20 * number, invocation_id=f"{number:032x}") for number in range(5))
    scene.record(*(found for run in runs for found in run))
    scene.round()
    assert scene.page.info.startswith(f"{LOCAL_IGNITION}. looping: bootkube")


def reboots_again_and_again(scene: Scene) -> None:
    scene.round()
    assert scene.page.info == LOCAL_IGNITION
    scene.reboot()
    scene.host.places.at(POINTER).rename(scene.host.places.at(f"{POINTER}.bak"))
    scene.round()
    assert scene.page.info == CONTROL_PLANE_IGNITION
    scene.reboot()
    scene.record(entry(boot_id="e0" * 16), entry(Phase.STAGE_START, 1, stage="pull", boot_id="e0" * 16))
    scene.round()
    assert scene.page.info == CONTROL_PLANE_IGNITION, "a reboot may have been meant"
    scene.round(660)
    assert scene.page.info.startswith(f"{CONTROL_PLANE_IGNITION}. interrupted: bootkube")


def loses_power(scene: Scene) -> None:
    scene.round()
    scene.reboot()
    scene.record(entry(boot_id="e0" * 16), entry(Phase.STAGE_START, 1, stage="pull", boot_id="e0" * 16))
    scene.round()
    scene.round(660)
    assert ". interrupted: bootkube in stage pull" in scene.page.info


def fails_anew(scene: Scene) -> None:
    scene.host.fail()
    scene.round()
    assert scene.page.info.startswith(FAILED)
    for number, uptime in enumerate((660, 5000, 9000, 12600)):
        scene.record(*failed_run(f"stage-{'abcd'[number]}", error_message=f"another {'abcd'[number]}"))
        scene.round(uptime)
        assert (f"stage-{'abcd'[number]}" in scene.page.info) is (number < 3), "four at most"


def fails_near_the_limit(scene: Scene) -> None:
    scene.page.stage_updated_at = datetime.now(UTC) - timedelta(minutes=35)
    scene.host.fail()
    scene.round()
    assert scene.page.info == ""
    scene.page.stage_updated_at = datetime.now(UTC) - timedelta(minutes=45)
    scene.page.status = "installing-pending-user-action"
    scene.round(660)
    assert scene.page.info.startswith(FAILED)


def has_no_disk_space(scene: Scene, disk: str) -> None:
    scene.host.fail()
    scene.host.places.state_directory.mkdir(parents=True)
    scene.round(before=("unshare", "--mount", "sh", "-c", disk, "sh", str(scene.host.places.state_directory)))
    assert scene.page.info.startswith(FAILED)
    assert len(scene.server.rules.objects) == 1


def has_the_agents_logs(scene: Scene) -> None:
    scene.page.logs_info = "completed"
    scene.host.fail()
    scene.round()
    assert scene.page.info.startswith(FAILED)
    assert scene.page.info.endswith("Boot logs kept on the host: /var/lib/service-record/spool")


def ships_elsewhere(scene: Scene) -> None:
    share = scene.directory / "share"
    share.mkdir()
    scene.page.logs_info = "completed"
    scene.host.write_settings(scene.server.url, f'ship_to = ["{share}"]')
    scene.host.fail()
    scene.round()
    assert scene.page.info.startswith(FAILED)
    assert scene.page.info.endswith(f"Boot logs were shipped to directory:{share}")
    assert len(list(share.iterdir())) == 1


def failed_at_the_service(scene: Scene) -> None:
    scene.page.status = "error"
    scene.host.fail()
    scene.round()
    assert "failed: bootkube in stage pull-image" in scene.page.info
    assert len(scene.server.rules.objects) == 1


def fails_while_the_service_is_away(scene: Scene) -> None:
    scene.server.fail(AWAY, times=999)
    scene.host.fail()
    for uptime in (60, 660, 3660):
        scene.round(uptime)
    assert scene.page.info == ""
    scene.server.clear_faults()
    scene.round(4260)
    assert scene.page.info == ""
    scene.round(7260)
    assert scene.page.info.startswith(FAILED)


def fails_on_day_two(scene: Scene) -> None:
    scene.page.kind = "AddToExistingClusterHost"
    scene.page.status, scene.page.stage = "added-to-existing-cluster", "Done"
    scene.round()
    scene.host.fail()
    scene.round(660)
    assert "failed: bootkube in stage pull-image" in scene.page.info
    assert scene.page.stage == "Done"


def fails_though_installed(scene: Scene) -> None:
    scene.page.status, scene.page.stage = "installed", "Done"
    scene.host.fail()
    scene.round()
    assert "failed: bootkube in stage pull-image" in scene.page.info
    assert (scene.page.status, scene.page.stage) == ("installed", "Done")
    assert scene.host.places.tombstone.exists()


def was_reset(scene: Scene) -> None:
    scene.page.status, scene.page.stage = "known", ""
    scene.host.fail()
    scene.round()
    assert (scene.page.stage, scene.page.info) == ("", "")
    assert len(scene.server.rules.objects) == 1
    assert "failed: bootkube in stage pull-image" in scene.console


def has_a_damaged_record(scene: Scene) -> None:
    (scene.host.places.records / "bootkube.json").write_bytes(b"\0\xff{" * 99)
    scene.round()
    assert scene.page.info.startswith(
        f"{LOCAL_IGNITION}. unknown: the record of bootkube is damaged, and no run in it can be read. "
    )
    assert len(scene.server.rules.objects) == 1


def hangs_unrecorded(scene: Scene) -> None:
    share = scene.directory / "share"
    share.mkdir()
    scene.host.write_settings(scene.server.url, f'ship_to = ["{share}"]')
    scene.round()
    assert scene.page.info == LOCAL_IGNITION
    scene.round(3000)
    assert len(list(share.iterdir())) == 2
    assert len(scene.server.rules.objects) == 1
    scene.cross_the_limit()


def dies_silently(scene: Scene) -> None:
    scene.round()
    assert scene.page.info == LOCAL_IGNITION
    assert len(scene.server.rules.objects) == 1
    scene.cross_the_limit()


def fails_while_the_database_is_away(scene: Scene) -> None:
    scene.server.rules.is_database_down = True
    scene.host.fail()
    for uptime in (60, 660, 1260, 1900, 2500):
        scene.round(uptime)
    assert scene.page.info == ""
    scene.reboot()
    scene.server.rules.is_database_down = False
    scene.round()
    assert scene.page.info.startswith(FAILED)
    assert len(scene.server.rules.objects) == 1


ROWS: Final[dict[str, Callable[[Scene], None]]] = {
    "boots from another device": never_reports,
    "does not get its Ignition (the reporter never starts)": never_reports,
    "has no network": has_no_network,
    "gets the network later": gets_the_network_later,
    "cannot resolve or reach the service": cannot_resolve,
    "does not trust the service's certificate": distrusts_the_certificate,
    "has a wrong token": has_a_wrong_token,
    "has a mistake in its settings": has_faulty_settings,
    "a recorded service fails": fails,
    "a recorded service hangs": hangs,
    "a recorded service starts again and again": loops,
    "reboots again and again": reboots_again_and_again,
    "loses power in a service": loses_power,
    "fails in a new way later": fails_anew,
    "fails shortly before the stage's limit": fails_near_the_limit,
    "has a full disk": lambda scene: has_no_disk_space(scene, FULL_DISK),
    "has a read-only disk": lambda scene: has_no_disk_space(scene, READ_ONLY_DISK),
    "already has the agent's logs at the service": has_the_agents_logs,
    "has a destination in `ship_to`": ships_elsewhere,
    "failed or was cancelled at the service": failed_at_the_service,
    "fails while the service is away": fails_while_the_service_is_away,
    "fails on day two, after `Done`": fails_on_day_two,
    "is installed, but a service failed on its way": fails_though_installed,
    "was reset at the service while its disk still boots": was_reset,
    "has a damaged record in which no run can be read": has_a_damaged_record,
    "hangs without a recorded service": hangs_unrecorded,
    "dies without a word in its first hour": dies_silently,
    "fails while the service has no database, and answers 401 for longer than half an hour": (
        fails_while_the_database_is_away
    ),
}


def rows_of_the_page() -> list[list[str]]:
    text = PAGE.read_text().partition(HEAD)[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in text.splitlines()]


def test_each_row_of_the_page_has_a_test() -> None:
    rows = rows_of_the_page()
    assert [row[0] for row in rows] == list(ROWS)
    assert all(len(row) == 3 and row[1] and row[1] != "nothing" for row in rows)


@pytest.mark.parametrize("row", ROWS)
def test_page_shows_what_its_row_says(tmp_path: Path, row: str) -> None:
    with create_server_with_tokens() as server:
        host = ReportingHost(tmp_path / "host", server.rules.add_rebooting_host(TOKEN), server.url)
        ROWS[row](Scene(host, server, tmp_path))
