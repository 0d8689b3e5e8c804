"""A host without records is judged by the runs in its journal, by `analyze` and `triage` alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from service_record.triage.judge import judge_bundle
from service_record.triage.rows import BundleRow, Reference
from tests.command_line import service_record

STAMP = "Nov 21 10:00:{:02} node "
FAILED = ("Main process exited, code=exited, status=1/FAILURE", "Failed with result 'exit-code'.")


def journal(*lines: str) -> str:
    """Return a journal as text; a line without a program is systemd's."""
    whole = [line if "]: " in line else f"systemd[1]: {line}" for line in lines]
    return "".join(f"{STAMP.format(number)}{line}\n" for number, line in enumerate(whole))


def failed(unit: str) -> tuple[str, ...]:
    return tuple(f"{unit}: {message}" for message in FAILED)


def judged(directory: Path, text: str, name: str = "out.txt") -> BundleRow:
    file = directory / name
    file.write_text(text)
    (row,) = judge_bundle(str(file), Reference(str(file)))
    return row


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (("Started app.service.", *failed("app.service"), "Started app.service."), "succeeded"),
        (("Started app.service.", *failed("app.service")), "failed"),
        (3 * ("Started app.service.", *failed("app.service")), "looping"),
        # systemd 219 and 229: no result, and no unit in the line of the start.
        (
            (
                "app.service: main process exited, code=exited, status=1/FAILURE",
                "Unit app.service entered failed state.",
            ),
            "failed",
        ),
        (
            (
                "app.service: Control process exited, code=exited status=2",
                "app.service: Unit entered failed state.",
            ),
            "failed",
        ),
        # A fragment that ends before systemd gives the result.
        (("app.service: Main process exited, code=exited, status=1/FAILURE",), "failed"),
    ],
)
def test_journal_is_judged_by_latest_run(tmp_path: Path, lines: tuple[str, ...], verdict: str) -> None:
    row = judged(tmp_path, journal(*lines))
    assert row.verdict == verdict, row.says


def test_refused_restart_is_failure_after_good_runs(tmp_path: Path) -> None:
    good = ("Starting app.service...", "app.service: Deactivated successfully.", "Finished app.service.")
    refused = (
        "app.service: Start request repeated too quickly.",
        "app.service: Failed with result 'start-limit-hit'.",
    )
    assert judged(tmp_path, journal(*good, *refused)).verdict == "failed"


def test_failure_with_cause_is_root_of_unrelated_ones(tmp_path: Path) -> None:
    full = "pull.sh[7]: write /var/lib/x: no space left on device"
    lines = (*failed("other.service"), "Started pull.service.", full, *failed("pull.service"))
    row = judged(tmp_path, journal(*lines))
    assert (row.service, row.rank) == ("pull", "cause"), row.says


def test_unit_with_failed_dependency_does_not_hide_the_failure(tmp_path: Path) -> None:
    lines = (
        "Failed to start The moon (fetch).",
        "moon.target: Job moon.target/start failed with result 'dependency'.",
    )
    assert judged(tmp_path, journal(*lines)).service == "The moon (fetch)"


def test_unit_that_often_fails_is_named_without_verdict(tmp_path: Path) -> None:
    waited = "systemd-networkd-wait-online[9]: Timeout occurred while waiting for network connectivity."
    row = judged(tmp_path, journal(waited, *failed("systemd-networkd-wait-online.service")))
    assert row.verdict == "succeeded"
    assert "systemd-networkd-wait-online failed" in row.says


@pytest.mark.parametrize(
    ("active", "exits"),
    [
        ("failed (Result: exit-code) since Tue 2017-08-01 04:57:30 UTC; 11min ago", "status=4/NOPERMISSION"),
        ("activating (auto-restart) (Result: exit-code) since Tue 2017-08-01 04:57:30 UTC", "status=4"),
    ],
)
def test_output_of_systemctl_status_is_read(tmp_path: Path, active: str, exits: str) -> None:
    text = (
        "● app.service - The application\n"
        "   Loaded: loaded (/etc/systemd/system/app.service; enabled)\n"
        f"   Active: {active}\n"
        f"  Process: 708 ExecStart=/opt/app (code=exited, {exits})\n"
        f" Main PID: 708 (code=exited, {exits})\n"
    )
    row = judged(tmp_path, text)
    assert row.verdict == "failed"
    assert "app.service: exit 4" in row.says


@pytest.mark.parametrize("before", ["[   20.675944] ", "r details.[   20.675944] ", ""])
def test_line_without_time_of_day_is_read(tmp_path: Path, before: str) -> None:
    messages = (
        "app[7]: fatal: the license has expired",
        *(f"systemd[1]: {one}" for one in failed("app.service")),
    )
    row = judged(tmp_path, "".join(f"{before}{message}\n" for message in messages))
    assert row.verdict == "failed"
    assert "the license has expired" in row.says


def test_analyze_agrees_with_triage(tmp_path: Path) -> None:
    row = judged(tmp_path, journal("Started app.service.", *failed("app.service")))
    answer = service_record("analyze", str(tmp_path / "out.txt"), "-o", "json")
    document = json.loads(answer.out)
    assert (document["verdict"], document["says"]) == (row.verdict, row.says)


def test_line_of_baseline_does_not_stand_out(tmp_path: Path) -> None:
    usual = "agent[5]: error: cannot read /etc/agent/extra.conf"
    new = "agent[5]: error: cannot bind the tunnel to veth7"
    (tmp_path / "good.txt").write_text(journal("Started app.service.", usual))
    (tmp_path / "bad.txt").write_text(journal("Started app.service.", usual, new))
    arguments = ("analyze", str(tmp_path / "bad.txt"), "-o", "json")
    lines = []
    for more in ((), ("--baseline", str(tmp_path / "good.txt"))):
        document = json.loads(service_record(*arguments, *more).out)
        lines.append(json.dumps(document["standsOut"]))
    assert "extra.conf" in lines[0]
    assert "extra.conf" not in lines[1]
    assert "the tunnel" in lines[1]


CLOUD_INIT = "2026-11-21 10:00:01,430 - util.py[WARNING]: Running module scripts-user (<module 'x'>) failed\n"
TOKEN = 'k3s[5]: time="2026-11-21T10:00:00Z" level=error msg="failed to get CA certs: {}: 401 Unauthorized"\n'
BOTH_KEYS = (
    "provision[7]: Public key for moon-1.rpm is not installed. Failing package is: moon-1",
    "provision[7]: Error: GPG check FAILED",
)


def test_failed_module_in_cloud_init_excerpt_fails(tmp_path: Path) -> None:
    row = judged(tmp_path, CLOUD_INIT)
    assert row.says.startswith("failed: cloud-init in stage config-scripts-user: ")


def test_cloud_init_debug_events_do_not_count(tmp_path: Path) -> None:
    events = "".join(
        f"2026-11-21 10:00:0{number},430 - handlers.py[DEBUG]: {event}\n"
        for number, event in enumerate(
            ("start: modules-final: running", "finish: modules-final: SUCCESS: running")
        )
    )
    assert judged(tmp_path, events + CLOUD_INIT).verdict == "succeeded"


def test_fragment_without_units_points_to_a_cause(tmp_path: Path) -> None:
    text = STAMP.format(1) + TOKEN.format("https://127.0.0.1:6444/cacerts")
    document = analyzed(tmp_path, text)
    assert "k3s: points to: " in document["says"]
    assert document["root"]["cause"]["name"] == "join-token"


def test_healthy_host_has_no_suspect_line(tmp_path: Path) -> None:
    text = journal("Started app.service.") + STAMP.format(1) + TOKEN.format("https://127.0.0.1:6444/cacerts")
    document = analyzed(tmp_path, text)
    assert (document["verdict"], document.get("root")) == ("succeeded", None)


CLOUD_INIT_EVENT = """\
2026-11-21 10:00:01,430 - handlers.py[DEBUG]: start: modules-final: running
2026-11-21 10:00:02,430 - handlers.py[DEBUG]: finish: modules-final: SUCCESS: running
"""
DEBIAN_INSTALLED = """\
Sep  4 14:01:00 main-menu[315]: INFO: Menu item 'partman-base' selected
Sep  4 14:01:02 main-menu[315]: (process:9): Volume group "sda" not found
Sep  4 14:01:12 main-menu[315]: INFO: Menu item 'finish-install' selected
Sep  4 14:01:13 finish-install: info: Running /usr/lib/finish-install.d/94save-logs
"""


def test_line_of_an_installation_that_succeeded_points_to_nothing(tmp_path: Path) -> None:
    document = analyzed(tmp_path, DEBIAN_INSTALLED)
    assert (document["verdict"], document.get("root")) == ("succeeded", None)
    shorter = analyzed(tmp_path, "".join(DEBIAN_INSTALLED.splitlines(keepends=True)[:-1]))
    assert "points to" in shorter["says"]


def test_log_copied_before_the_end_is_no_failure(tmp_path: Path) -> None:
    log = """\
06:47:00,038 INF threading: Running Thread: AnaPayloadThread (139663982507776)
06:47:01,038 ERR program: dd: error writing '/var/tmp/zeros': No space left on device
"""
    document = analyzed(tmp_path, log)
    assert document["verdict"] == "unknown"
    assert "anaconda was copied before the end" in document["says"]


def test_old_log_does_not_mean_an_unset_clock(tmp_path: Path) -> None:
    document = analyzed(tmp_path, CLOUD_INIT_EVENT.replace("2026", "2019"))
    assert document["clock"] == []
    unset = analyzed(tmp_path, CLOUD_INIT_EVENT.replace("2026", "2001"))
    assert unset["clock"]


def test_commands_for_a_file_name_no_unit(tmp_path: Path) -> None:
    text = "Err:4 https://x InRelease\n  Signatures couldn't be verified: NO_PUBKEY 2273699AFD56A556\n"
    document = analyzed(tmp_path, text)
    assert document["root"]["cause"]["name"] == "package-key-missing"
    assert not [command for command in document["root"]["next"] if "out" in command]


@pytest.mark.parametrize(
    ("unit", "line"),
    [
        ("systemd-fsck@dev-sdb2.service", "systemd-fsck[9]: error: the moon is missing"),
        ("ignition-disks.service", "ignition[9]: disks: error: the moon is missing"),
        ("snap.moon.daemon.service", "moon.daemon[9]: error: the moon is missing"),
    ],
)
def test_unit_program_may_be_named_after_template(tmp_path: Path, unit: str, line: str) -> None:
    assert "the moon is missing" in judged(tmp_path, journal(line, *failed(unit))).says


def test_likely_cause_is_the_one_that_explains_the_other(tmp_path: Path) -> None:
    document = analyzed(tmp_path, journal("Starting setup.service...", *BOTH_KEYS, *failed("setup.service")))
    assert document["root"]["cause"]["name"] == "package-key-missing"


def analyzed(directory: Path, text: str) -> dict[str, Any]:
    (directory / "out.txt").write_text(text)
    answer = service_record("analyze", str(directory / "out.txt"), "-o", "json")
    return dict(json.loads(answer.out))


KERNEL = f"{STAMP.format(1)}kernel: Linux version 6.1.0\n{STAMP.format(1)}kernel: Command line: ro {{}}\n"
NO_MEMORY = journal("kubelet[7]: error: no memory controller", *failed("kubelet.service"))


@pytest.mark.parametrize(
    ("argument", "is_known"), [("cgroup_disable=memory", True), ("cgroup_enable=memory", False)]
)
def test_kernel_in_a_journal_states_facts_of_the_host(tmp_path: Path, argument: str, is_known: bool) -> None:
    document = analyzed(tmp_path, KERNEL.format(argument) + NO_MEMORY)
    assert ("the memory cgroup is turned off" in document["root"]["cause"]["explains"]) == is_known


REFUSED = journal(
    "fetch[7]: error: Get https://api.lab:6443: dial tcp 192.0.2.7:6443: connect: connection refused",
    *failed("fetch.service"),
)


@pytest.mark.parametrize(
    ("lines", "is_own"),
    [
        (
            ("NetworkManager[5]: <info>  [1.2] dhcp4 (ens3): state changed new lease, address=192.0.2.7",),
            True,
        ),
        (("systemd-networkd[5]: ens3: DHCPv4 address 192.0.2.7/24, gateway 192.0.2.1 acquired",), True),
        (
            ("cloud-init[5]: ci-info: |  ens3  | True |  192.0.2.7  | 255.255.255.0 | global | 52:54:00 |",),
            True,
        ),
        (
            ("NetworkManager[5]: <info>  [1.2] dhcp4 (ens3): state changed new lease, address=192.0.2.8",),
            False,
        ),
        (
            (
                "systemd-networkd[5]: ens3: DHCPv4 address 192.0.2.7/24, gateway 192.0.2.1 acquired",
                "systemd-networkd[5]: ens3: DHCP lease lost",
            ),
            False,
        ),
        (
            (
                "NetworkManager[5]: <info>  [1.2] dhcp4 (ens3): state changed new lease, address=192.0.2.7",
                "NetworkManager[5]: <info>  [1.2] device (ens3): state change: activated -> failed (x)",
            ),
            False,
        ),
    ],
)
def test_address_is_known_from_a_journal(tmp_path: Path, lines: tuple[str, ...], is_own: bool) -> None:
    cause = analyzed(tmp_path, journal(*lines) + REFUSED)["root"]["cause"]
    assert (cause["name"] == "own-address-refuses") == is_own


def test_interface_without_lease_is_only_likely(tmp_path: Path) -> None:
    lost = "NetworkManager[5]: <warn>  [1.3] dhcp4 (ens4): request timed out"
    lease = "NetworkManager[5]: <info>  [1.2] dhcp4 (ens3): state changed new lease, address=192.0.2.7"
    for lines, is_likely in (((lost,), False), ((lost, lease), True)):
        cause = analyzed(tmp_path, journal(*lines, *failed("moon.service")))["root"]["cause"]
        assert (cause["name"], "doubt" in cause) == ("no-address", is_likely)


def test_host_is_known_from_a_journal(tmp_path: Path) -> None:
    lines = ("systemd[1]: Hostname set to <localhost>.", "systemd[1]: Hostname set to <node7>.")
    dmi = "kernel: DMI: Moon Inc. Lander 5/0W23H8, BIOS 2.1 01/01/2024"
    row = judged(tmp_path, journal(*lines) + f"{STAMP.format(3)}{dmi}\n")
    assert (row.host, row.hardware) == ("node7", "Moon Inc. Lander 5")


def test_facts_of_an_earlier_boot_do_not_count(tmp_path: Path) -> None:
    kernels = KERNEL.format("cgroup_disable=memory") + KERNEL.format("quiet")
    assert "the memory cgroup" not in analyzed(tmp_path, kernels + NO_MEMORY)["root"]["cause"]["explains"]


def test_script_output_outranks_its_module(tmp_path: Path) -> None:
    text = "/var/lib/cloud/instance/scripts/part-001: line 7: /etc/moon.sh: No such file or directory\n"
    assert "/etc/moon.sh, which is not there" in analyzed(tmp_path, text + CLOUD_INIT)["says"]


@pytest.mark.parametrize(
    ("colour", "before"),
    [
        ("", "Displaying logs from failed units: fetch.service\n"),
        ("", 20 * "Please ensure your config is valid.\n"),
        ("[0;1;39m[0;1;38;5;185m", ""),
    ],
)
def test_journal_without_hostnames_is_read(tmp_path: Path, colour: str, before: str) -> None:
    lines = ("Starting fetch.service...", "fetch[9]: error: the moon is missing", *failed("fetch.service"))
    text = before + journal(*lines).replace(" node ", " ").replace("]: fetch", f"]: {colour}fetch")
    document = analyzed(tmp_path, text.replace("\n", "[0m\n") if colour else text)
    assert document["verdict"] == "failed"
    assert service_record("show", tmp_path / "out.txt").status == 0
    assert "the moon is missing" in document["says"]
