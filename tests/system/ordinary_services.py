"""Ordinary services under a real systemd, with the expected output of `show` and `analyze`."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from testing.machine import Machine
from tests.command_line import Answer, service_record

FOREVER = "record_service_stage_start work; sleep infinity"
WORK = "record_service_stage_start work; record_service_stage_success"
NOTIFY = ("Type=notify", "NotifyAccess=all")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCase:
    """A service, the commands that start and end it, and the expected verdict."""

    description: str
    """Row title in docs/project/lives.md."""
    body: str = WORK
    settings: tuple[str, ...] = ()
    unit: str = ""
    """Name of the unit, if it differs from the name of the case."""
    scenario: str = "start {unit}"
    verdict: str
    """Verdict of `analyze`; empty where there is no record."""
    text: str = ""
    """Text that the output of `analyze` must contain."""


SERVICES = {
    "oneshot": ServiceCase(
        description="oneshot that ends well", settings=("Type=oneshot",), verdict="succeeded"
    ),
    "remaining": ServiceCase(
        description="oneshot that stays active (`RemainAfterExit=`)",
        settings=("Type=oneshot", "RemainAfterExit=yes"),
        verdict="succeeded",
    ),
    "simple": ServiceCase(description="simple that ends well", verdict="succeeded"),
    "exec": ServiceCase(description="exec that ends well", settings=("Type=exec",), verdict="succeeded"),
    "notify": ServiceCase(
        description="notify that is ready, and ends well",
        body=f"systemd-notify --ready; {WORK}",
        settings=NOTIFY,
        verdict="succeeded",
    ),
    "forking": ServiceCase(
        description="forking that is stopped",
        body=FOREVER,
        settings=(
            "Type=forking",
            "ExecStart=",
            "ExecStart=/bin/bash -c '/usr/local/bin/forking.sh & sleep 0.3'",
        ),
        scenario="start {unit}; systemctl stop {unit}",
        verdict="stopped",
    ),
    "socket": ServiceCase(
        description="started by its socket",
        scenario="systemctl start socket.socket; (: <>/dev/tcp/127.0.0.1/7777); await socket 'service end'",
        verdict="succeeded",
    ),
    "templated@one": ServiceCase(
        description="an instance of a template", unit="templated@", verdict="succeeded"
    ),
    "user": ServiceCase(description="`User=nobody`", settings=("User=nobody",), verdict="succeeded"),
    "timed": ServiceCase(
        description="started by a timer",
        settings=("Type=oneshot",),
        scenario="systemctl start timed.timer; await timed 'service end'",
        verdict="succeeded",
    ),
    "recovered": ServiceCase(
        description="failed twice, restarted by systemd, then ended well",
        body=f"{WORK}; [[ -e /run/2 ]] || {{ [[ ! -e /run/1 ]] || touch /run/2; touch /run/1; exit 1; }}",
        settings=("Restart=on-failure", "RestartSec=50ms"),
        verdict="succeeded",
    ),
    "reloaded": ServiceCase(
        description="reloaded, then ended by itself",
        body=f"trap 'reloaded=1' HUP; {WORK}; while [[ ! ${{reloaded-}} ]]; do sleep 0.05; done",
        settings=("ExecReload=/bin/kill -HUP $MAINPID",),
        scenario="start {unit}; await {unit} 'stage end'; systemctl reload {unit}",
        verdict="succeeded",
    ),
    "restarted": ServiceCase(
        description="`systemctl restart`, three times, then `stop`",
        body=FOREVER,
        scenario="start {unit}; for n in 1 2 3; do await_new {unit}; systemctl restart {unit}; done; "
        "await_new {unit}; systemctl stop {unit}",
        verdict="stopped",
    ),
    "stopped": ServiceCase(
        description="`systemctl stop`",
        body=FOREVER,
        scenario="start {unit}; await {unit} 'stage start'; systemctl stop {unit}",
        verdict="stopped",
    ),
    "rebooted": ServiceCase(
        description="ran when the host was rebooted",
        body=FOREVER,
        scenario="start {unit}; await {unit} 'stage start'",
        verdict="stopped",
    ),
    "exit-code": ServiceCase(description="exit status 3", body="exit 3", verdict="failed", text="exit 3"),
    "signal": ServiceCase(
        description="killed by SIGKILL", body="kill -KILL $$", verdict="failed", text="SIGKILL"
    ),
    "core-dump": ServiceCase(
        description="crashed (SIGSEGV)",
        body="bash -c 'kill -SEGV $PPID; sleep infinity'",
        settings=("LimitCORE=0",),
        verdict="failed",
        text="crashed",
    ),
    "timeout": ServiceCase(
        description="not ready in time (`TimeoutStartSec=`)",
        body=FOREVER,
        settings=("Type=notify", "TimeoutStartSec=1s"),
        verdict="failed",
        text="TimeoutStartSec=",
    ),
    "watchdog": ServiceCase(
        description="gave no sign of life (`WatchdogSec=`)",
        body=f"systemd-notify --ready; {FOREVER}",
        settings=(*NOTIFY, "WatchdogSec=1s", "LimitCORE=0"),
        verdict="failed",
        text="watchdog",
    ),
    "start-limit-hit": ServiceCase(
        description="failed until the start limit was hit",
        body="exit 1",
        settings=("Restart=on-failure", "RestartSec=50ms", "StartLimitIntervalSec=60", "StartLimitBurst=3"),
        verdict="looping",
    ),
    "protocol": ServiceCase(
        description="ended without being ready (`Type=notify`)",
        settings=NOTIFY,
        verdict="failed",
        text="ready",
    ),
    "resources": ServiceCase(
        description="its environment file is missing",
        settings=("EnvironmentFile=/run/missing",),
        verdict="",
    ),
    "exec-condition": ServiceCase(
        description="its `ExecCondition=` is not met", settings=("ExecCondition=/bin/false",), verdict=""
    ),
}
HELPERS = """
await() { until grep -qs "$2" "/var/log/openshift/$1.json"; do sleep 0.05; done; }
await_new() { # until the latest run has started its stage
  until [[ $(tail -n 1 "/var/log/openshift/$1.json") == *'"stage start"'* ]]; do sleep 0.05; done
}
"""


def run_services(machine: Machine) -> None:
    """Start and end every service, then reboot the host."""
    for name, case in SERVICES.items():
        unit = case.unit or name
        machine.bash_service(unit, case.body, *case.settings)
    machine.write_unit("socket.socket", "[Socket]\nListenStream=127.0.0.1:7777\n")
    machine.write_unit("timed.timer", "[Timer]\nOnActiveSec=0.1\nAccuracySec=1ms\n")
    machine.drop_in()
    ends = [name for name in SERVICES if name not in {"rebooted", "remaining"}]
    scenarios = "\n".join(case.scenario.format(unit=name) + " &" for name, case in SERVICES.items())
    machine.boot(f"{HELPERS}\n{scenarios}\nwait; rest {' '.join(ends)}")
    machine.boot("true")


def read_results(machine: Machine) -> dict[str, tuple[Answer, str]]:
    """Return the result of `analyze` and the line of `show` for each service."""
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(
            lambda name: (_run_command(machine, "analyze", name), _run_command(machine, "show", name)),
            SERVICES,
        )
        return {
            name: (analysis, _find_line(shown, name))
            for name, (analysis, shown) in zip(SERVICES, results, strict=True)
        }


def _run_command(machine: Machine, verb: str, service: str) -> Answer:
    return service_record(verb, "--from", machine.records.directory, service, COLUMNS="500")


def _find_line(shown: Answer, name: str) -> str:
    lines = (line for line in shown.out.splitlines() if name in line)
    return re.sub(r"\s{2,}", "  ", next(lines, "")).strip()
