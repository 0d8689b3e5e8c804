"""The unit of `snippet --first-boot` under a real systemd: it runs once and does not delay the boot."""

from pathlib import Path

from testing.machine import Machine
from tests.deploy.test_snippets import LEFT, UNIT, WANTS, shell_of, snippet_of
from tests.running_server import get_refused_url
from tests.step_collector import serve_step_collector
from tests.system.unix_relay import relay

PORT = 18474
LISTEN = f"""
systemd-run --quiet --socket-property=ListenStream=127.0.0.1:{PORT} --unit=way \\
  /usr/lib/systemd/systemd-socket-proxyd /observed/collector.socket
"""
SETTLE = f"""
bash /observed/post
systemctl daemon-reload
systemctl is-enabled service-record-first-boot.service
systemctl start service-record-first-boot.service
systemctl show --property=Result service-record-first-boot.service
for path in {UNIT} {WANTS} {LEFT}; do
  [[ ! -e /$path && ! -L /$path ]] || echo "left: $path"
done
systemctl is-enabled service-record-first-boot.service 2>&1 | tail -n 1
"""


def post(url: str) -> str:
    return shell_of("kickstart", snippet_of("kickstart", "--first-boot", "--url", url, "--host", "web1"))[1]


def test_unit_runs_once_and_removes_itself(machine: Machine) -> None:
    (machine.observed / "post").write_text(post(f"http://127.0.0.1:{PORT}"))
    socket = machine.observed / "collector.socket"
    with serve_step_collector() as collector, relay(socket, int(collector.url.rpartition(":")[2])):
        output = machine.boot(LISTEN + SETTLE)
    first, result, *rest = output.splitlines()
    assert (first, result) == ("enabled", "Result=success")
    assert not [line for line in rest if line.startswith("left: ")]
    assert rest[-1] != "enabled"
    last = collector.reported[-1]
    assert (last.fields["name"], last.fields["percentage"]) == ("Booted from disk", "100")
    assert [str(entry.phase) for entry in machine.entries("first-boot")] == [
        "service start",
        "stage end",
        "service end",
    ]


def test_systemd_loads_the_unit(tmp_path: Path, machine: Machine) -> None:
    (machine.observed / "post").write_text(post(get_refused_url()))
    output = machine.boot(
        f"bash /observed/post\nsystemd-analyze verify --man=no /{UNIT} 2>&1\n"
        "systemctl daemon-reload\nsystemctl show --property=After service-record-first-boot.service\n"
    )
    assert "multi-user.target" in output, "the unit delays the boot"
    assert "service-record-first-boot" not in output.partition("After=")[0]
