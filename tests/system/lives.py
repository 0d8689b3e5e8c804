"""Ordinary lives of services under a real systemd, as data, and what the command says of each."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from testing.machine import Machine
from tests.command_line import Answer, service_record

FOREVER = "record_service_stage_start work; sleep infinity"
WORK = "record_service_stage_start work; record_service_stage_success"
NOTIFY = ("Type=notify", "NotifyAccess=all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A service, how the scenario lets it live, and the word that `show` and `analyze` have for its end."""

    what: str
    """In words, for the table."""
    body: str = WORK
    settings: tuple[str, ...] = ()
    unit: str = ""
    """The name of the unit, where that is not the name of the life."""
    scenario: str = "start {unit}"
    word: str
    """Of the verdict of `analyze`; empty where there is no record."""
    says: str = ""
    """Text that `analyze` has to contain, too."""


LIVES = {
    "oneshot": Life(what="oneshot that ends well", settings=("Type=oneshot",), word="succeeded"),
    "remaining": Life(
        what="oneshot that stays active (`RemainAfterExit=`)",
        settings=("Type=oneshot", "RemainAfterExit=yes"),
        word="succeeded",
    ),
    "simple": Life(what="simple that ends well", word="succeeded"),
    "exec": Life(what="exec that ends well", settings=("Type=exec",), word="succeeded"),
    "notify": Life(
        what="notify that is ready, and ends well",
        body=f"systemd-notify --ready; {WORK}",
        settings=NOTIFY,
        word="succeeded",
    ),
    "forking": Life(
        what="forking that is stopped",
        body=FOREVER,
        settings=(
            "Type=forking",
            "ExecStart=",
            "ExecStart=/bin/bash -c '/usr/local/bin/forking.sh & sleep 0.3'",
        ),
        scenario="start {unit}; systemctl stop {unit}",
        word="stopped",
    ),
    "socket": Life(
        what="started by its socket",
        scenario="systemctl start socket.socket; (: <>/dev/tcp/127.0.0.1/7777); await socket 'service end'",
        word="succeeded",
    ),
    "templated@one": Life(what="an instance of a template", unit="templated@", word="succeeded"),
    "user": Life(what="`User=nobody`", settings=("User=nobody",), word="succeeded"),
    "timed": Life(
        what="started by a timer",
        settings=("Type=oneshot",),
        scenario="systemctl start timed.timer; await timed 'service end'",
        word="succeeded",
    ),
    "recovered": Life(
        what="failed twice, restarted by systemd, then ended well",
        body=f"{WORK}; [[ -e /run/2 ]] || {{ [[ ! -e /run/1 ]] || touch /run/2; touch /run/1; exit 1; }}",
        settings=("Restart=on-failure", "RestartSec=50ms"),
        word="succeeded",
    ),
    "reloaded": Life(
        what="reloaded, then ended by itself",
        body=f"trap 'reloaded=1' HUP; {WORK}; while [[ ! ${{reloaded-}} ]]; do sleep 0.05; done",
        settings=("ExecReload=/bin/kill -HUP $MAINPID",),
        scenario="start {unit}; await {unit} 'stage end'; systemctl reload {unit}",
        word="succeeded",
    ),
    "restarted": Life(
        what="`systemctl restart`, three times, then `stop`",
        body=FOREVER,
        scenario="start {unit}; for n in 1 2 3; do await_new {unit}; systemctl restart {unit}; done; "
        "await_new {unit}; systemctl stop {unit}",
        word="stopped",
    ),
    "stopped": Life(
        what="`systemctl stop`",
        body=FOREVER,
        scenario="start {unit}; await {unit} 'stage start'; systemctl stop {unit}",
        word="stopped",
    ),
    "rebooted": Life(
        what="ran when the host was rebooted",
        body=FOREVER,
        scenario="start {unit}; await {unit} 'stage start'",
        word="stopped",
    ),
    "exit-code": Life(what="exit status 3", body="exit 3", word="failed", says="exit 3"),
    "signal": Life(what="killed by SIGKILL", body="kill -KILL $$", word="failed", says="SIGKILL"),
    "core-dump": Life(
        what="crashed (SIGSEGV)",
        body="bash -c 'kill -SEGV $PPID; sleep infinity'",
        settings=("LimitCORE=0",),
        word="failed",
        says="crashed",
    ),
    "timeout": Life(
        what="not ready in time (`TimeoutStartSec=`)",
        body=FOREVER,
        settings=("Type=notify", "TimeoutStartSec=1s"),
        word="failed",
        says="TimeoutStartSec=",
    ),
    "watchdog": Life(
        what="gave no sign of life (`WatchdogSec=`)",
        body=f"systemd-notify --ready; {FOREVER}",
        settings=(*NOTIFY, "WatchdogSec=1s", "LimitCORE=0"),
        word="failed",
        says="watchdog",
    ),
    "start-limit-hit": Life(
        what="failed until the start limit was hit",
        body="exit 1",
        settings=("Restart=on-failure", "RestartSec=50ms", "StartLimitIntervalSec=60", "StartLimitBurst=3"),
        word="looping",
    ),
    "protocol": Life(
        what="ended without being ready (`Type=notify`)",
        settings=NOTIFY,
        word="failed",
        says="ready",
    ),
    "resources": Life(
        what="its environment file is missing",
        settings=("EnvironmentFile=/run/missing",),
        word="",
    ),
    "exec-condition": Life(
        what="its `ExecCondition=` is not met", settings=("ExecCondition=/bin/false",), word=""
    ),
}
HELPERS = """
await() { until grep -qs "$2" "/var/log/openshift/$1.json"; do sleep 0.05; done; }
await_new() { # until the latest run has come as far as its stage
  until [[ $(tail -n 1 "/var/log/openshift/$1.json") == *'"stage start"'* ]]; do sleep 0.05; done
}
"""


def boot(machine: Machine) -> None:
    """Let every service live its life, and reboot the host."""
    for name, life in LIVES.items():
        unit = life.unit or name
        machine.bash_service(unit, life.body, *life.settings)
    machine.write_unit("socket.socket", "[Socket]\nListenStream=127.0.0.1:7777\n")
    machine.write_unit("timed.timer", "[Timer]\nOnActiveSec=0.1\nAccuracySec=1ms\n")
    machine.drop_in()
    ends = [name for name in LIVES if name not in {"rebooted", "remaining"}]
    lives = "\n".join(life.scenario.format(unit=name) + " &" for name, life in LIVES.items())
    machine.boot(f"{HELPERS}\n{lives}\nwait; rest {' '.join(ends)}")
    machine.boot("true")


def first_lines(machine: Machine) -> dict[str, tuple[Answer, str]]:
    """Return for each life the answer of `analyze`, and the line that `show` has for it."""
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(
            lambda name: (_asked(machine, "analyze", name), _asked(machine, "show", name)), LIVES
        )
        return {
            name: (analyzed, _line(shown, name))
            for name, (analyzed, shown) in zip(LIVES, answers, strict=True)
        }


def _asked(machine: Machine, verb: str, service: str) -> Answer:
    return service_record(verb, "--from", machine.records.directory, service, COLUMNS="500")


def _line(shown: Answer, name: str) -> str:
    lines = (line for line in shown.out.splitlines() if name in line)
    return re.sub(r"\s{2,}", "  ", next(lines, "")).strip()
