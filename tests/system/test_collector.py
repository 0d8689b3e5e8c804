"""The collector under its unit, with a real systemd and a real PostgreSQL."""

import sys
from pathlib import Path

import pytest

from testing import postgresql
from testing.machine import Machine

_COMMAND = """\
#!/bin/sh
export PYTHONPATH=/src:{libraries} LD_LIBRARY_PATH=/opt/python/lib
exec {python} -c 'from service_record.cli import main; main(prog_name="service-record")' "$@"
"""
_SCENARIO = """\
set -eu
exec 2>&1
echo 'postgres:x:117:117::/var/lib/postgresql:/bin/sh' >>/etc/passwd
echo 'postgres:x:117:' >>/etc/group
install -d -o 117 -g 117 /var/lib/postgresql /run/postgresql
start postgresql
ask() {{ {programs}/psql -h /run/postgresql -U collector -d "$1" -Atc "$2"; }}
until ask postgres 'select 1' >/dev/null 2>&1; do sleep 0.2; done
ask postgres 'create database collector' >/dev/null

service-record install --collector
database='postgresql://collector@/collector?host=/run/postgresql'
install -D -m 0600 /dev/null /etc/service-record/collector.env
echo "SERVICE_RECORD_DATABASE=$database" >/etc/service-record/collector.env
systemctl daemon-reload
is_ready() {{
  curl -sf -o /dev/null --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:8474/readyz && return
  journalctl --unit=collector --output=cat --lines=40
  exit 1
}}
systemctl enable --now collector
is_ready
service-record collector token create admin --database "$database" --output /run/token
report() {{
  curl -sf -H "Authorization: Bearer $(cat /run/token)" -d "name=$1" http://127.0.0.1:8474/api/v1/hosts/web1/steps
  echo
}}
report 'Disk setup'
first=$(systemctl show --property=MainPID --value collector)
systemctl restart collector
is_ready
[[ $(systemctl show --property=MainPID --value collector) != "$first" ]] && echo restarted
report Packages
systemctl reload collector
report Bootloader
kill -KILL "$(systemctl show --property=MainPID --value collector)"
until [[ $(systemctl show --property=NRestarts --value collector) = 1 ]]; do sleep 0.1; done
is_ready
report 'Call home'
systemctl stop collector
systemctl show --property=Result collector
ask collector "select string_agg(name, ', ' order by id) from steps"
journalctl --unit=collector --output=cat | grep -c '"level": "error"' || true
"""


@pytest.mark.skipif(postgresql.programs() is None, reason="no PostgreSQL is installed")
def test_unit_on_postgresql_survives_restart_and_kill(machine: Machine) -> None:
    programs = postgresql.programs()
    python = "/opt/python/bin/python3"
    if sys.base_prefix.startswith("/usr"):
        python = f"{sys.base_prefix}/bin/python3"
    else:  # this interpreter may be in a home directory, which the unit cannot access
        machine.bind(Path(sys.base_prefix), "/opt/python")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    libraries = f"/venv/lib/python{version}/site-packages"
    machine.program("service-record", _COMMAND.format(libraries=libraries, python=python))
    data = "/var/lib/postgresql/data"
    machine.unit(
        "postgresql",
        "User=postgres",
        f"ExecStartPre={programs}/initdb --username=collector --auth=trust -N -E UTF8 -D {data}",
        f"ExecStart={programs}/postgres -D {data} -k /run/postgresql --listen_addresses=",
    )

    lines = machine.boot(_SCENARIO.format(programs=programs)).splitlines()

    reports = [line for line in lines if line.startswith('{"id":')]
    assert reports == [f'{{"id":{number},"host":"web1","build":1}}' for number in (1, 2, 3, 4)], lines
    assert lines[-3:] == ["Result=success", "Disk setup, Packages, Bootloader, Call home", "0"], lines
    assert "restarted" in lines
