"""Services of other users than root, in each of systemd's sandboxes: their stages are recorded."""

import json
import subprocess

import pytest

from service_record.history.outcome import Outcome
from testing.machine import Machine

STAGES = "record_service_stage_start first; record_service_stage_success; record_service_stage_start second"
# Not the tests' own Python, which may be below a directory that only root can read.
PYTHON = "/usr/bin/python3"
PYTHON_BODY = """\
#!/usr/bin/python3
import sys
sys.path.insert(0, "/src")
import service_record
with service_record.service():
    with service_record.stage("first"):
        pass
    with service_record.stage("second"):
        raise SystemExit(3)
"""
USERS = {
    "user": ("User=nobody",),
    "strict": ("User=nobody", "ProtectSystem=strict", "PrivateTmp=yes", "PrivateDevices=yes"),
    "dynamic": ("DynamicUser=yes",),
    "root-strict": ("ProtectSystem=strict",),
    "own-var": ("User=nobody", "TemporaryFileSystem=/var:ro"),
    # The records directory is hidden: missing where root cannot create it, or covered by another one.
    "root-no-var": ("TemporaryFileSystem=/var:ro",),
    "root-part-of-var": ("TemporaryFileSystem=/var:ro", "BindPaths=/var/lib"),
    "root-own-var": ("TemporaryFileSystem=/var",),
    "root-own-records": ("TemporaryFileSystem=/var/log/openshift",),
    "root-strict-allowed": ("ProtectSystem=strict", "ReadWritePaths=/var/log/openshift"),
}
ARRAY = "Environment=SERVICE_RECORDS_LAYOUT=array"
PHASES = ["service start", "stage start first", "stage end first", "stage start second"]
# Root does not follow a link or open another file that the service creates in the inbox instead of its own.
SQUATTERS = {
    "symlink": 'ln -s /etc/passwd "$file"',
    "fifo": 'mkfifo "$file"',
    "directory": 'mkdir "$file"',
    "garbage": 'head -c 100000 /dev/urandom >"$file"',
}
FORGED = (
    '{"timestamp":"2026-11-21T01:05:10.123Z","phase":"service end","result":"success","invocationId":"%s"}'
)


@pytest.fixture(scope="module")
def machine(shared_machine: Machine) -> Machine:
    for user, settings in USERS.items():
        for layout, extra in (("lines", ()), ("array", (ARRAY,))):
            shared_machine.bash_service(f"bash-{user}-{layout}", f"{STAGES}; exit 3", *settings, *extra)
            python = f"python-{user}-{layout}"
            shared_machine.program(f"{python}.py", PYTHON_BODY)
            shared_machine.unit(python, f"ExecStart=/usr/local/bin/{python}.py", *settings, *extra)
    shared_machine.bash_service("killed", f"{STAGES}; kill -KILL $$", "User=nobody")
    shared_machine.bash_service(
        "twice",
        f"{STAGES}; [[ -e /run/again ]] || exit 3",
        *("DynamicUser=yes", "Restart=on-failure", "RestartSec=100ms", "ExecStopPost=+touch /run/again"),
    )
    shared_machine.bash_service("live", f"{STAGES}; sleep infinity", "DynamicUser=yes")
    shared_machine.bash_service("too-early", STAGES, "User=nobody")
    shared_machine.bash_service("hidden", STAGES, "User=nobody", "InaccessiblePaths=/dev/shm")
    shared_machine.bash_service("read-only", STAGES, "User=nobody", "ReadOnlyPaths=/")
    shared_machine.unit("unaware", "ExecStart=/bin/true", "Type=oneshot", "TemporaryFileSystem=/var")
    for name, attack in SQUATTERS.items():
        shared_machine.program(
            f"squat-{name}.sh",
            f"#!/usr/bin/env bash\nfile=/dev/shm/service-record/squat-{name}.$INVOCATION_ID.json\n{attack}\n",
        )
        shared_machine.unit(f"squat-{name}", f"ExecStart=/usr/local/bin/squat-{name}.sh", "User=nobody")
    # Another user creates a file for this service between its start and its end.
    shared_machine.unit("victim", "ExecStart=/bin/sleep infinity", "User=daemon")
    shared_machine.drop_in()
    every = [*list_services(), "killed", "live", "hidden", "read-only", "unaware"]
    every += (f"squat-{name}" for name in SQUATTERS)
    shared_machine.boot(f"""
        start too-early; rest too-early
        echo 'd /dev/shm/service-record 1733 root root -' >/run/inbox.conf
        systemd-tmpfiles --create /run/inbox.conf
        start {" ".join(every)} twice victim
        until [[ -s $(echo /dev/shm/service-record/live.*) ]]; do sleep 0.05; done
        until grep --quiet second /dev/shm/service-record/live.*; do sleep 0.05; done
        invocation=$(systemctl show --property=InvocationID --value victim)
        printf '{FORGED}\\n' "$invocation" >/run/forged
        chmod 644 /run/forged
        setpriv --reuid=nobody --regid=nogroup --clear-groups \\
          cp /run/forged "/dev/shm/service-record/victim.$invocation.json"
        SERVICE_RECORDS_DIR= /venv/bin/python /venv/bin/service-record show -o json >/observed/live.json
        SERVICE_RECORDS_DIR= /venv/bin/python /venv/bin/service-record analyze live >/observed/live.txt || :
        systemctl stop live victim
        rest {" ".join(every)} twice victim
        ls -A /dev/shm/service-record >/observed/left
        journalctl --sync
        journalctl --identifier=service-record --output=cat >/observed/journal
        journalctl --output=json MESSAGE_ID=a15117ca27ad49d7a97840b08309a81d >/observed/journal.json
    """)
    return shared_machine


def list_services() -> list[str]:
    return [
        f"{language}-{user}-{layout}"
        for language in ("bash", "python")
        for user in USERS
        for layout in ("lines", "array")
    ]


def has_python() -> bool:
    """Return whether the system's Python, which all users can run, is new enough for the library."""
    ask = [PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(ask, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("service", list_services())
def test_stages_of_an_unprivileged_service_are_recorded(machine: Machine, service: str) -> None:
    if service.startswith("python") and not has_python():
        pytest.skip("no /usr/bin/python3 of 3.11 or newer, and another may be hidden from users")
    (run,) = machine.runs(service)

    assert machine.phases(service)[:4] == PHASES
    assert machine.phases(service).count("service end") == 1
    assert (run.outcome, run.in_stage, run.facts.exit_code) == (Outcome.FAILURE, "second", 3)
    if service.endswith("array"):
        assert len(json.loads(machine.records.path(service).read_bytes())) == len(machine.phases(service))


def test_end_is_recorded_where_the_unit_hides_the_records(machine: Machine) -> None:
    assert machine.phases("unaware") == ["service start", "service end"]


def test_systemd_closes_killed_service_of_user(machine: Machine) -> None:
    (run,) = machine.runs("killed")

    assert (run.outcome, run.in_stage, run.facts.signal) == (Outcome.FAILURE, "second", "KILL")


def test_runs_of_a_dynamic_user_are_recorded(machine: Machine) -> None:
    runs = machine.runs("twice")

    assert [run.outcome for run in runs] == [Outcome.FAILURE, Outcome.SUCCESS]
    assert all(len(run.stages) == 2 for run in runs)


def test_reader_sees_stages_of_a_running_service(machine: Machine) -> None:
    shown = json.loads((machine.observed / "live.json").read_bytes())

    (live,) = [service for service in shown["services"] if service["service"] == "live"]
    assert (live["outcome"], live["runs"][0]["inStage"]) == ("running", "second")
    assert "second" in (machine.observed / "live.txt").read_text()


def test_files_of_other_users_are_ignored(machine: Machine) -> None:
    assert "2026-11-21T01:05:10" not in (machine.observed / "live.json").read_text()
    assert machine.phases("victim") == ["service start", "service end"]
    assert "not a file of user" in (machine.observed / "journal").read_text()


@pytest.mark.parametrize("name", SQUATTERS)
def test_root_follows_nothing_in_the_inbox(machine: Machine, name: str) -> None:
    assert machine.phases(f"squat-{name}") == ["service start", "service end"]


def test_nothing_is_left_in_the_inbox(machine: Machine) -> None:
    assert (machine.observed / "left").read_text() == ""


def test_journal_reports_unrecorded_stages(machine: Machine) -> None:
    journal = (machine.observed / "journal").read_text()

    assert "hidden.service ran as user 65534 and may not see" in journal
    assert "read-only.service ran as user 65534 and may not see" in journal
    assert "too-early.service ran as user 65534 before there was /dev/shm/service-record" in journal


def test_each_warning_has_fields_in_the_journal(machine: Machine) -> None:
    lines = (machine.observed / "journal.json").read_text().splitlines()
    entries = {entry["SERVICE_RECORD_SERVICE"]: entry for entry in map(json.loads, lines)}

    assert {"hidden", "too-early", "victim"} <= entries.keys()
    assert "hidden.service ran as user" in entries["hidden"]["MESSAGE"]
    assert (entries["hidden"]["PRIORITY"], entries["hidden"]["OBJECT_SYSTEMD_UNIT"]) == (
        "4",
        "hidden.service",
    )
