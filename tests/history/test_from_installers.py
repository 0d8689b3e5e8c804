"""Logs of installers become runs with stages. The excerpts have the format of real logs."""
# ruff: noqa: E501  # lines of logs

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from service_record.history import History, build_history
from service_record.history.from_installers import (
    InstallerLine,
    entries,
    find_installer,
    read_cloud_init_status,
)
from service_record.history.outcome import Outcome, Run
from service_record.read.derived import read_log, read_nodes
from tests.command_line import service_record

CLOUD_INIT = """\
2026-06-21 11:12:30,001 - util.py[DEBUG]: Cloud-init v. 23.1 running 'init-local' at Wed, 21 Jun 2026 11:12:30 +0000. Up 9.50 seconds.
2026-06-21 11:12:30,100 - handlers.py[DEBUG]: start: init-local/check-cache: attempting to read from cache [check]
2026-06-21 11:12:30,200 - handlers.py[DEBUG]: finish: init-local/check-cache: SUCCESS: no cache found
2026-06-21 11:12:31,000 - handlers.py[DEBUG]: finish: init-local: SUCCESS: searching for local datasources
2026-06-21 11:12:35,000 - handlers.py[DEBUG]: start: modules-final/config-scripts-user: running config-scripts-user with frequency once-per-instance
2026-06-21 11:12:36,078 - subp.py[DEBUG]: Unexpected error while running command.
Command: ['/var/lib/cloud/instance/scripts/part-001']
Exit code: 1
2026-06-21 11:12:36,078 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (scripts in /var/lib/cloud/instance/scripts)
2026-06-21 11:12:36,078 - handlers.py[DEBUG]: finish: modules-final/config-scripts-user: FAIL: running config-scripts-user with frequency once-per-instance
2026-06-21 11:12:36,078 - util.py[WARNING]: Running module scripts-user (<module 'cloudinit.config.cc_scripts_user'>) failed
2026-06-21 11:12:36,079 - util.py[DEBUG]: Running module scripts-user (<module 'cloudinit.config.cc_scripts_user'>) failed
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/cloudinit/config/modules.py", line 285, in _run_modules
    run_name, mod.handle, func_args, freq=freq
  File "/usr/lib/python3/dist-packages/cloudinit/subp.py", line 386, in runparts
    raise RuntimeError(
RuntimeError: Runparts: 1 failures (part-001) in 1 attempted commands
2026-06-21 11:12:36,500 - handlers.py[DEBUG]: start: modules-final/config-final_message: running config-final_message with frequency always
2026-06-21 11:12:36,600 - handlers.py[DEBUG]: finish: modules-final/config-final_message: SUCCESS: config-final_message ran successfully
2026-06-21 11:12:36,700 - handlers.py[DEBUG]: finish: modules-final: FAIL: running modules for final
"""
SUBIQUITY = """\
2026-10-19 19:40:00,001 DEBUG root:39 start: subiquity/Install/install:
2026-10-19 19:41:37,968 DEBUG root:39 start: subiquity/Install/install/curtin_install/install-grub: installing grub to target devices
2026-10-19 19:42:00,366 ERROR root:39 finish: subiquity/Install/install/curtin_install/install-grub: FAIL: installing grub to target devices
2026-10-19 19:42:01,000 ERROR root:39 finish: subiquity/Install/install: FAIL: Command failed
"""
CURTIN = """\
curtin: Installation started. (20.1)
start: cmd-install/stage-partitioning/builtin/cmd-block-meta: curtin command block-meta
finish: cmd-install/stage-partitioning/builtin/cmd-block-meta: SUCCESS: curtin command block-meta
start: cmd-install/stage-curthooks/builtin/cmd-curthooks: curtin command curthooks
finish: cmd-install/stage-curthooks/builtin/cmd-curthooks: FAIL: curtin command curthooks
Traceback (most recent call last):
  File "/snap/subiquity/1/lib/python3.12/site-packages/curtin/commands/main.py", line 202, in main
    ret = args.func(args)
  File "/snap/subiquity/1/lib/python3.12/site-packages/curtin/distro.py", line 57, in name_to_distro
    return DISTROS[DISTROS.index(distname)]
ValueError: tuple.index(x): x not in tuple
"""
DEBIAN = """\
Sep  4 14:01:00 main-menu[315]: INFO: Menu item 'netcfg' selected
Sep  4 14:01:02 netcfg[400]: INFO: Starting netcfg
Sep  4 14:01:12 main-menu[315]: INFO: Menu item 'partman-base' selected
Sep  4 14:03:40 partman:   No matching physical volumes found
Sep  4 14:03:40 main-menu[315]: WARNING **: Configuring 'partman-base' failed with error code 1
Sep  4 14:03:40 main-menu[315]: WARNING **: Menu item 'partman-base' failed.
"""
IGNITION = """\
[    4.100000] ignition[800]: Ignition 2.18.0
[    4.200000] ignition[800]: Stage: fetch-offline
[    4.900000] ignition[800]: Ignition finished successfully
[    5.100000] ignition[825]: Stage: fetch
[    9.400000] ignition[825]: failed to fetch config: unsupported config version
[    9.500000] ignition[825]: Ignition failed: unsupported config version
"""
KUBEADM = """\
[init] Using Kubernetes version: v1.30.2
[preflight] Running pre-flight checks
[certs] Using certificateDir folder "/etc/kubernetes/pki"
[certs] Generating "ca" certificate and key
[kubelet-start] Starting the kubelet
[wait-control-plane] Waiting for the kubelet to boot up the control plane as static Pods
[kubelet-check] The kubelet is not healthy after 4m0.000s
error execution phase wait-control-plane: could not initialize a Kubernetes cluster
"""
ANACONDA = """\
06:47:00,038 INF threading: Running Thread: AnaPayloadThread (139663982507776)
06:47:09,039 INF threading: Thread Done: AnaPayloadThread (139663982507776)
06:48:00,100 INF threading: Running Thread: AnaInstallThread (139663982507777)
06:49:12,200 INF threading: Thread Failed: AnaInstallThread (139663982507777)
06:49:12,201 ERR exception: Traceback (most recent call last):
  File "/usr/lib64/python3.11/site-packages/pyanaconda/installation.py", line 410, in run_installation
    queue.start()
pyanaconda.errors.PayloadInstallError: dnf failed
06:49:13,000 INF threading: Running Thread: AnaExceptionThread (139663982507778)
"""


def read(path: str, text: str) -> History:
    return build_history(read_log(path, BytesIO(text.encode()).read).items())


def only_run(history: History, service: str) -> Run:
    (run,) = next(each.runs for each in history.services if each.name == service)
    return run


def stages(run: Run) -> list[tuple[str, Outcome]]:
    return [(stage.name, stage.outcome) for stage in run.stages]


def test_modules_of_cloud_init_are_stages() -> None:
    history = read("var/log/cloud-init.log", CLOUD_INIT)
    local, final = only_run(history, "cloud-init-local"), only_run(history, "cloud-final")
    assert (local.outcome, stages(local)) == (Outcome.SUCCESS, [("check-cache", Outcome.SUCCESS)])
    assert final.outcome is Outcome.FAILURE
    assert stages(final) == [
        ("config-scripts-user", Outcome.FAILURE),
        ("config-final_message", Outcome.SUCCESS),
    ]
    facts = final.stages[0].facts
    assert facts.message == "RuntimeError: Runparts: 1 failures (part-001) in 1 attempted commands"
    assert facts.location is not None
    assert (facts.location.line, facts.location.function) == (386, "runparts")
    assert final.stages[0].duration == 1.078


def test_status_of_cloud_init_gives_times_and_errors() -> None:
    status: dict[str, object] = {
        "v1": {
            "datasource": "DataSourceNoCloud",
            "init": {"start": 1795220000.5, "finished": 1795220002.0, "errors": []},
            "modules-final": {"start": 1795220003.0, "finished": 1795220009.0, "errors": ["('x', E())"]},
            "modules-config": {"start": None, "finished": None, "errors": []},
            "stage": None,
        }
    }
    history = build_history(
        entries("cloud-init", read_cloud_init_status(json.dumps(status).encode())).items()
    )
    assert only_run(history, "cloud-init").duration == 1.5
    assert only_run(history, "cloud-final").facts.message == "('x', E())"
    assert {service.name for service in history.services} == {"cloud-init", "cloud-final"}


def test_subiquity_fails_with_its_step() -> None:
    run = only_run(read("installer/subiquity-server-debug.log", SUBIQUITY), "subiquity")
    assert run.outcome is Outcome.FAILURE
    assert stages(run) == [("Install/install/curtin_install/install-grub", Outcome.FAILURE)]


def test_traceback_of_curtin_gives_the_line() -> None:
    run = only_run(read("curtin-install.log", CURTIN), "curtin")
    assert [outcome for _, outcome in stages(run)] == [Outcome.SUCCESS, Outcome.FAILURE]
    location = run.stages[1].facts.location
    assert location is not None
    assert (location.line, location.function) == (57, "name_to_distro")
    assert run.stages[1].facts.message == "ValueError: tuple.index(x): x not in tuple"


def test_menu_items_of_debian_installer_are_stages() -> None:
    run = only_run(read("var/log/installer/syslog", DEBIAN), "debian-installer")
    assert stages(run) == [("netcfg", Outcome.SUCCESS), ("partman-base", Outcome.FAILURE)]
    assert run.in_stage == "partman-base"


def test_debian_installer_that_saves_its_log_has_succeeded() -> None:
    text = (
        "Sep  4 14:00:00 syslogd started: BusyBox v1.30.1\n"
        "Sep  4 14:00:00 kernel: klogd started: BusyBox v1.30.1 (Debian 1:1.30.1-4)\n"
        + "Sep  4 14:00:00 kernel: [    0.000000] BIOS-e820: usable\n"
        * 200  # the menu is beyond the first lines
        + "Sep  4 14:01:00 main-menu[315]: INFO: Menu item 'finish-install' selected\n"
        "Sep  4 14:01:02 finish-install: info: Running /usr/lib/finish-install.d/94save-logs\n"
    )
    run = only_run(read("syslog", text), "debian-installer")
    assert run.outcome is Outcome.SUCCESS
    assert stages(run) == [("finish-install", Outcome.SUCCESS)]


CURTIN_EVENTS = """\
curtin_event.1.5 start: cmd-install: curtin command install
subiquity_log.1 start: cmd-install: curtin command install
curtin_event.1.5 start: cmd-install/stage-extract/builtin/cmd-extract: curtin command extract
curtin_event.1.5 start: cmd-install/stage-extract/builtin/cmd-extract: acquiring image from cp:///tmp/mount
subiquity_log.1 start: cmd-install/stage-extract/builtin/cmd-extract: curtin command extract
subiquity_log.1 start: cmd-install/stage-extract/builtin/cmd-extract: acquiring image from cp:///tmp/mount
subiquity_log.1 rsync: write failed on "/target/usr/bin/udevadm": No space left on device (28)
curtin_event.1.5 finish: cmd-install/stage-extract/builtin/cmd-extract: FAIL: acquiring image from cp:///tmp/mount
curtin_event.1.5 finish: cmd-install/stage-extract/builtin/cmd-extract: FAIL: curtin command extract
subiquity_log.1 finish: cmd-install/stage-extract/builtin/cmd-extract: FAIL: acquiring image from cp:///tmp/mount
subiquity_log.1 finish: cmd-install/stage-extract/builtin/cmd-extract: FAIL: curtin command extract
subiquity_log.1 Stdout: start: cmd-install/stage-extract/builtin/cmd-extract: curtin command extract
subiquity_log.1         finish: cmd-install/stage-extract/builtin/cmd-extract: FAIL: curtin command extract
subiquity_log.1 finish: cmd-install: FAIL: curtin command install
curtin_event.1.5 finish: cmd-install: FAIL: curtin command install
"""


def journal_as_json(lines: str) -> str:
    entries = []
    for number, line in enumerate(lines.splitlines()):
        program, _, message = line.partition(" ")
        time = str(1_795_223_110_000_000 + number * 1_000_000)
        fields = {"__REALTIME_TIMESTAMP": time, "_BOOT_ID": "1" * 32, "_PID": "7"}
        entries.append(json.dumps(fields | {"SYSLOG_IDENTIFIER": program, "MESSAGE": message}))
    return "\n".join(entries)


def journal_as_export(lines: str) -> str:
    entries = [json.loads(line) for line in journal_as_json(lines).splitlines()]
    return "\n".join("".join(f"{name}={value}\n" for name, value in each.items()) for each in entries)


def journal_as_text(lines: str) -> str:
    stamped = []
    for number, line in enumerate(lines.splitlines()):
        program, _, message = line.partition(" ")
        stamped.append(f"Nov 21 01:05:{10 + number} node1 {program}[7]: {message}")
    return "\n".join(stamped)


@pytest.mark.parametrize("write", [journal_as_json, journal_as_export, journal_as_text])
def test_journal_has_each_event_of_curtin_twice(write: Callable[[str], str]) -> None:
    """Two programs log each event, a step has the path of the one around it, and an error quotes events."""
    run = only_run(read("journal", write(CURTIN_EVENTS)), "curtin")
    assert (run.outcome, run.in_stage) == (Outcome.FAILURE, "extract")
    assert stages(run) == [("extract", Outcome.FAILURE)]
    assert (
        run.facts.message == 'rsync: write failed on "/target/usr/bin/udevadm": No space left on device (28)'
    )


def test_step_of_killed_curtin_begins_again() -> None:
    killed = "".join(
        f"start: cmd-install/stage-extract/builtin/cmd-extract: {text}\n" for text in ("command", "image")
    )
    rerun = killed + killed.replace("start:", "finish:").replace("cmd-extract: ", "cmd-extract: SUCCESS: ")
    run = only_run(read("curtin-install.log", killed + rerun), "curtin")
    assert run.stages[-1].outcome is Outcome.SUCCESS


def test_reboot_during_cloud_init_ends_its_run() -> None:
    start = "2026-03-02 {}:00:00,000 - handlers.py[DEBUG]: start: init-network{}: running\n"
    finish = "2026-03-02 06:00:00,000 - handlers.py[DEBUG]: finish: init-network{}: SUCCESS: ran\n"
    boots = [start.format(hour, step) for hour in ("01", "05") for step in ("", "/config-ssh")]
    text = "".join(boots) + finish.format("/config-ssh") + finish.format("")
    (service,) = read("cloud-init.log", text).services
    assert [run.outcome for run in service.runs] == [Outcome.INTERRUPTED, Outcome.SUCCESS]
    assert [run.started.hour for run in service.runs if run.started] == [1, 5]


def test_ignition_fails_in_its_stage() -> None:
    run = only_run(read("serial.txt", IGNITION), "ignition")
    assert stages(run) == [("fetch-offline", Outcome.SUCCESS), ("fetch", Outcome.FAILURE)]
    assert (run.outcome, run.in_stage) == (Outcome.FAILURE, "fetch")
    assert "unsupported config version" in (run.facts.message or "")


@pytest.mark.parametrize("ends_well", [True, False])
def test_phases_of_kubeadm_are_stages(ends_well: bool) -> None:
    text = KUBEADM
    if ends_well:
        text = text[: text.index("error")] + "Your Kubernetes control-plane has initialized successfully!\n"
    run = only_run(read("out.txt", text), "kubeadm")
    last = Outcome.SUCCESS if ends_well else Outcome.FAILURE
    assert run.outcome is last
    assert [name for name, _ in stages(run)] == [
        "init",
        "preflight",
        "certs",
        "kubelet-start",
        "wait-control-plane",
    ]
    assert run.stages[-1].outcome is last


KUBEADM_CHECKS = """\
[init] Using Kubernetes version: v1.30.2
[preflight] Running pre-flight checks
error execution phase preflight: [preflight] Some fatal errors occurred:
\t[ERROR NumCPU]: the number of available CPUs 1 is less than the required 2
\t[ERROR Swap]: running with swap on is not supported
[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`
To see the stack trace of this error execute with --v=5 or higher
"""


@pytest.mark.parametrize("error", ["error execution phase preflight: ", ""], ids=["since 1.13", "before"])
def test_failed_checks_of_kubeadm_are_the_message(error: str) -> None:
    text = KUBEADM_CHECKS.replace("error execution phase preflight: ", error)
    run = only_run(read("out.txt", text), "kubeadm")
    assert (run.outcome, run.in_stage, run.attempt) == (Outcome.FAILURE, "preflight", 1)
    assert "[ERROR NumCPU]: the number of available CPUs 1" in (run.facts.message or "")
    assert "[ERROR Swap]" in (run.facts.message or "")


def test_kubeadm_that_starts_again_is_another_run() -> None:
    history = read("out.txt", KUBEADM_CHECKS + KUBEADM)
    (service,) = history.services
    assert [run.outcome for run in service.runs] == [Outcome.FAILURE, Outcome.FAILURE]
    assert "[kubelet-check] The kubelet is not healthy" in (service.runs[-1].facts.message or "")


def test_thread_of_anaconda_fails_with_its_exception() -> None:
    run = only_run(read("tmp/anaconda.log", ANACONDA), "anaconda")
    assert stages(run)[:2] == [("AnaPayloadThread", Outcome.SUCCESS), ("AnaInstallThread", Outcome.FAILURE)]
    location = run.stages[1].facts.location
    assert location is not None
    assert (location.line, location.function) == (410, "run_installation")


def test_clock_set_back_makes_no_day_long_stage() -> None:
    text = """\
12:00:00,000 INF threading: Running Thread: AnaTimeThread (1)
12:00:05,000 INF threading: Thread Done: AnaTimeThread (1)
11:55:00,000 INF threading: Running Thread: AnaPayloadThread (2)
11:55:30,000 INF threading: Thread Done: AnaPayloadThread (2)
12:05:00,000 INF threading: Running Thread: AnaInstallThread (3)
12:06:00,000 INF threading: Thread Done: AnaInstallThread (3)
"""
    run = only_run(read("tmp/anaconda.log", text), "anaconda")
    assert [stage.duration for stage in run.stages] == [5.0, 0.0, 60.0]


ANACONDA_TASKS = """\
23:59:00,000 INFO anaconda: Running Thread: AnaInstallThread (139)
23:59:30,000 INF installation: Task started: Generate initramfs (40/44)
00:00:55,500 DBG installation: Task completed: Generate initramfs (40/44) (85.3 s)
00:01:00,000 ERR kickstart.script: Error code 1 running the kickstart script at line 30
"""
PROGRAMS = """\
06:00:00,000 INF program: Running... losetup --list
06:00:00,001 INF program: Running... /sbin/auditd
06:00:00,002 INF program: Running... udevadm settle
06:00:00,003 DBG program: Return code: 5
06:00:00,004 DBG program: Return code: 0
06:00:01,000 INF program: Running in chroot '/mnt/sysroot'... grub2-install /dev/vda
06:00:02,000 INF program: grub2-install: error: will not proceed with blocklists.
06:00:02,500 DBG program: Return code: 1
06:00:03,000 INF program: Running... /bin/sh /tmp/ks-script-f7Mx8L
"""
PACKAGING = """\
06:00:00,000 INF packaging: gathering repo metadata for os
06:00:01,000 ERR packaging: failed to get groups for repo updates
06:00:02,000 INF packaging: Installed: bash-5.1
06:00:05,000 ERR packaging: DNF error: Error in POSTIN scriptlet in rpm package kernel-core
"""


def test_tasks_of_anaconda_are_stages_with_durations() -> None:
    run = only_run(read("anaconda.log", ANACONDA_TASKS), "anaconda")
    found = {stage.name: stage for stage in run.stages}
    assert found["Generate initramfs"].duration == 85.5
    assert found["kickstart script"].outcome is Outcome.FAILURE
    assert run.in_stage == "AnaInstallThread"


def test_copied_log_of_anaconda_is_not_running() -> None:
    run = only_run(read("tmp/anaconda.log", ANACONDA_TASKS), "anaconda")
    assert (run.outcome, run.has_unclear_end) == (Outcome.INTERRUPTED, True)


LAST_SCRIPTS = "00:02:00,000 INFO anaconda: Running kickstart %%post script(s)\n"


@pytest.mark.parametrize(
    ("path", "line", "outcome"),
    [
        ("tmp/anaconda.log", LAST_SCRIPTS, Outcome.INTERRUPTED),
        ("var/log/anaconda/anaconda.log", LAST_SCRIPTS, Outcome.SUCCESS),
        ("var/log/anaconda/anaconda.log", LAST_SCRIPTS.replace("%post", "%pre"), Outcome.INTERRUPTED),
        (
            "anaconda.log",
            "00:02:00,000 INF threading: Thread Done: AnaConfigurationThread (1)\n",
            Outcome.SUCCESS,
        ),
        (
            "anaconda.log",
            "00:02:00,000 INF boss: Copying logs from the installation environment.\n",
            Outcome.SUCCESS,
        ),
        (
            "anaconda.log",
            "00:02:00,000 INF threading: Thread Failed: AnaInstallThread (1)\n",
            Outcome.FAILURE,
        ),
    ],
)
def test_anaconda_succeeds_by_its_last_steps(path: str, line: str, outcome: Outcome) -> None:
    assert only_run(read(path, ANACONDA_TASKS + line), "anaconda").outcome is outcome


def test_programs_end_with_the_installation() -> None:
    files = {"var/log/anaconda/anaconda.log": ANACONDA_TASKS + LAST_SCRIPTS, "program.log": PROGRAMS}
    both = read_nodes([(path, BytesIO(text.encode()).read) for path, text in files.items()])[""]
    assert only_run(build_history(both.items()), "anaconda-program").outcome is Outcome.SUCCESS
    assert only_run(read("program.log", PROGRAMS), "anaconda-program").outcome is Outcome.INTERRUPTED


def test_return_code_counts_where_one_program_ran() -> None:
    run = only_run(read("program.log", PROGRAMS), "anaconda-program")
    assert stages(run) == [
        ("grub2-install /dev/vda", Outcome.FAILURE),
        ("/bin/sh /tmp/ks-script-f7Mx8L", Outcome.INTERRUPTED),
    ]
    assert "blocklists" in (run.stages[0].facts.message or "")


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("", Outcome.FAILURE),
        ("06:00:06,000 INF packaging: Installed: kernel-core\n", Outcome.INTERRUPTED),
        ("06:00:06,000 INF packaging: ==== end rpm scriptlet logs ====\n", Outcome.SUCCESS),
    ],
)
def test_last_error_of_packaging_counts(end: str, outcome: Outcome) -> None:
    run = only_run(read("packaging.log", PACKAGING + end), "anaconda-packaging")
    assert run.outcome is outcome
    assert run.stages[0].outcome is Outcome.SUCCESS


def test_cloud_init_fails_with_its_module_message() -> None:
    text = CLOUD_INIT.replace(
        "2026-06-21 11:12:36,700",
        "2026-06-21 11:12:36,650 - modules.py[INFO]: Skipping modules 'snap'\n2026-06-21 11:12:36,700",
    )
    run = only_run(read("cloud-init.log", text), "cloud-final")
    assert run.facts.message == "RuntimeError: Runparts: 1 failures (part-001) in 1 attempted commands"


def test_output_of_cloud_init_has_runs() -> None:
    text = """\
Cloud-init v. 22.2 running 'init' at Tue, 22 Dec 2026 08:23:41 +0000. Up 11.79 seconds.
Cloud-init v. 22.2 running 'modules:final' at Tue, 22 Dec 2026 08:23:51 +0000. Up 21.79 seconds.
2026-12-22 08:23:52,001 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (scripts in /var/lib/cloud/instance/scripts)
Cloud-init v. 22.2 finished at Tue, 22 Dec 2026 08:23:53 +0000. Datasource DataSourceEc2Local.  Up 23.54 seconds
"""
    history = read("cloud-init-output.log", text)
    network, final = only_run(history, "cloud-init"), only_run(history, "cloud-final")
    assert (network.outcome, network.duration) == (Outcome.SUCCESS, 10.0)
    assert (final.outcome, final.duration) == (Outcome.FAILURE, 1.75)
    assert stages(final) == [("config-scripts-user", Outcome.FAILURE)]


def test_result_of_cloud_init_gives_errors() -> None:
    document = {"v1": {"datasource": "DataSourceNoCloud", "errors": ["('runcmd', KeyError('x'))"]}}
    run = only_run(read("var/lib/cloud/data/result.json", json.dumps(document)), "cloud-init-result")
    assert (run.outcome, run.facts.message) == (Outcome.FAILURE, "('runcmd', KeyError('x'))")


@pytest.mark.parametrize("path", ["var/log/syslog", "notes.txt", "data/status.log"])
def test_other_logs_are_of_no_installer(path: str) -> None:
    assert find_installer(path, "Nov 21 10:00:00 node program[7]: start: nothing\n") is None


def test_stages_of_a_log_join_the_journal_run(tmp_path: Path) -> None:
    journal = """\
2026-06-21T11:12:34+00:00 node systemd[1]: Starting cloud-final.service - Execute cloud user/final scripts...
2026-06-21T11:12:37+00:00 node systemd[1]: cloud-final.service: Main process exited, code=exited, status=1/FAILURE
2026-06-21T11:12:37+00:00 node systemd[1]: cloud-final.service: Failed with result 'exit-code'.
"""
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "journal.txt").write_text(f"-- Boot {'c' * 32} --\n{journal}")
    (tmp_path / "host" / "cloud-init.log").write_text(CLOUD_INIT)
    document = json.loads(service_record("show", "--from", tmp_path / "host", "--output", "json").out)
    (final,) = [one["runs"] for one in document["services"] if one["service"] == "cloud-final"]
    assert len(final) == 1
    assert final[0]["bootId"] == "c" * 32
    assert final[0]["facts"]["exitCode"] == 1
    assert final[0]["facts"]["location"]["function"] == "runparts"
    assert [stage["name"] for stage in final[0]["stages"]] == ["config-scripts-user", "config-final_message"]


def test_failure_without_message_in_open_journal_run(tmp_path: Path) -> None:
    (tmp_path / "journal.txt").write_text(
        f"-- Boot {'c' * 32} --\n"
        "2026-06-21T11:12:34+00:00 node systemd[1]: Starting cloud-final.service - Execute scripts...\n"
    )
    (tmp_path / "cloud-init.log").write_text(
        "2026-06-21 11:12:35,000 - handlers.py[DEBUG]: start: modules-final: running modules for final\n"
        "2026-06-21 11:12:36,000 - handlers.py[DEBUG]: finish: modules-final: FAIL\n"
    )
    document = json.loads(service_record("show", "--from", tmp_path, "--output", "json").out)
    (final,) = [one["runs"] for one in document["services"] if one["service"] == "cloud-final"]
    assert [run["outcome"] for run in final] == ["running"]


def test_lines_without_events_give_nothing() -> None:
    installer = find_installer("cloud-init.log", "")
    assert installer is not None
    assert list(installer.read([InstallerLine("nothing")])) == []


@pytest.mark.parametrize(
    ("path", "text", "outcome"),
    [
        ("cloud-init/status.json", '{"v1": {"init": {"start": 5, "finished": 1e20}}}', Outcome.SUCCESS),
        (
            "cloud-init-output.log",
            "Cloud-init v. 22.2 running 'init' at Mon, 31 Feb 2026 08:23:41 +0000. Up 11.79 seconds.\n",
            Outcome.RUNNING,
        ),
        (
            "journal.txt",
            """\
-- Logs begin at Mon 2026-11-02 10:00:00 UTC, end at Mon 2026-13-02 10:00:00 UTC. --
Nov 21 10:00:06 node systemd[1]: Started cloud-init.service - Initial cloud-init job.
""",
            Outcome.RUNNING,
        ),
    ],
)
def test_impossible_times_are_ignored(path: str, text: str, outcome: Outcome) -> None:
    assert only_run(read(path, text), "cloud-init").outcome is outcome


def test_cloud_init_stage_with_impossible_start_is_ignored() -> None:
    assert list(read_cloud_init_status(b'{"v1": {"init": {"start": 1e300}}}')) == []
