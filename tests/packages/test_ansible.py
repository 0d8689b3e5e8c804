"""The callback plugin and the role of Ansible, run by ansible-core on this machine."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service_record.deploy.delivered import Option, choose_layout, contents
from tests.command_line import service_record
from tests.programs import REPOSITORY

ANSIBLE_CORE = "ansible-core==2.19.14"
HOME = REPOSITORY / ".cache/ansible"
PLAYBOOK = """\
- name: Prepare
  hosts: all
  gather_facts: false
  tasks:
    - name: Try
      block:
        - name: Fetch
          ansible.builtin.command: "false"
      rescue:
        - name: Mend
          ansible.builtin.command: "true"
    - name: Ignored
      ansible.builtin.command: "false"
      ignore_errors: true
- name: Configure
  hosts: all
  gather_facts: false
  tasks:
    - name: Pull image
      ansible.builtin.shell: "{{ pull }}"
      no_log: "{{ hidden | default(false) }}"
"""
FREE = """\
- name: Hosts
  hosts: all
  gather_facts: false
  strategy: free
  tasks:
    - name: First
      ansible.builtin.shell: "[ {{ inventory_hostname }} = fast ] || { sleep 1; false; }"
    - name: Second
      ansible.builtin.command: "true"
"""


@pytest.fixture(scope="session")
def ansible_playbook() -> Path:
    """Return the program, in an environment of its own that is made once."""
    program = HOME / "bin/ansible-playbook"
    HOME.parent.mkdir(exist_ok=True)
    with (HOME.parent / "ansible.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (HOME / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", HOME], check=True)
            install = [str(HOME / "bin/python"), "-m", "pip", "install", "--quiet", ANSIBLE_CORE]
            if subprocess.run(install, check=False, capture_output=True).returncode != 0:
                pytest.skip(f"{ANSIBLE_CORE} cannot be had here")
            (HOME / "ready").touch()
    return program


def install_package_files(root: Path) -> Path:
    """Install what the package has for Ansible. Return the directory."""
    for item in contents([Option.REPORTER], choose_layout("/usr")):
        if "/ansible/" in item.path:
            path = root / item.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(item.data)
    return root / "usr/share/service-record/ansible"


def play(
    program: Path, directory: Path, *arguments: str, inventory: str = "localhost,", **environment: str
) -> str:
    """Run a playbook on this machine. Return what Ansible writes."""
    files = install_package_files(directory / "package")
    command = [str(program), "--inventory", inventory, "--connection", "local", *arguments]
    done = subprocess.run(
        [*command, "--extra-vars", "ansible_python_interpreter=/usr/bin/python3"],
        check=False,
        capture_output=True,
        text=True,
        cwd=directory,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_CALLBACK_PLUGINS": str(files / "callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "service_record",
            "ANSIBLE_ROLES_PATH": str(files / "roles"),
            "SERVICE_RECORDS_DIR": str(directory / "records"),
            **environment,
        },
    )
    return done.stdout + done.stderr


def only_run(directory: Path) -> dict[str, Any]:
    """Return the one run of the playbook `site`, as `show` has it."""
    answer = service_record("show", directory / "records", "--output", "json")
    (service,) = json.loads(answer.out)["services"]
    assert service["service"] == "site"
    (run,) = service["runs"]
    return dict(run)


def test_playbook_that_fails_is_recorded(ansible_playbook: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(PLAYBOOK)
    pull = '{"pull": "echo no space left on device >&2; exit 1"}'
    play(ansible_playbook, tmp_path, "site.yml", "--extra-vars", pull, PYTHONPATH=str(REPOSITORY))

    run = only_run(tmp_path)
    assert run["outcome"] == "failure"
    assert "localhost: no space left on device" in run["facts"]["message"]
    assert run["facts"]["location"]["file"] == f"{tmp_path}/site.yml"
    assert [(stage["name"], stage["outcome"]) for stage in run["stages"]] == [
        ("Prepare", "success"),
        ("Fetch", "failure"),
        ("Mend", "success"),
        ("Ignored", "success"),
        ("Configure", "failure"),
        ("Pull image", "failure"),
    ]
    table = service_record("show", tmp_path / "records").out
    assert "site failed in stage Pull image" in table


def test_playbook_that_succeeds_is_recorded(ansible_playbook: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(PLAYBOOK)
    play(ansible_playbook, tmp_path, "site.yml", "--extra-vars", "pull=true", PYTHONPATH=str(REPOSITORY))

    run = only_run(tmp_path)
    assert run["outcome"] == "success", "the rescued and the ignored failures are none of the playbook"
    assert [stage["outcome"] for stage in run["stages"] if stage["name"] == "Configure"] == ["success"]


def test_hidden_output_is_not_recorded(ansible_playbook: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(PLAYBOOK)
    secret = '{"hidden": true, "pull": "echo hunter2 >&2; exit 1"}'
    play(ansible_playbook, tmp_path, "site.yml", "--extra-vars", secret, PYTHONPATH=str(REPOSITORY))

    assert only_run(tmp_path)["outcome"] == "failure"
    assert "hunter2" not in (tmp_path / "records/site.json").read_text()


def test_free_strategy_blames_the_task_that_failed(ansible_playbook: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(FREE)
    play(ansible_playbook, tmp_path, "site.yml", inventory="slow,fast", PYTHONPATH=str(REPOSITORY))

    run = only_run(tmp_path)
    assert {stage["name"]: stage["outcome"] for stage in run["stages"]} == {
        "Hosts": "failure",
        "First": "failure",
        "Second": "success",
    }
    assert run["facts"]["message"].startswith("slow: ")


def test_playbook_runs_without_library(ansible_playbook: Path, tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(PLAYBOOK)
    output = play(ansible_playbook, tmp_path, "site.yml", "--extra-vars", "pull=true")

    assert "unreachable=0    failed=0" in output
    assert "nothing is recorded" in output
    assert not (tmp_path / "records").exists()


def test_role_installs_what_install_does(ansible_playbook: Path, tmp_path: Path) -> None:
    (tmp_path / "role.yml").write_text("- hosts: all\n  gather_facts: false\n  roles: [service_record]\n")
    root, expected = tmp_path / "root", tmp_path / "expected"
    root.mkdir()
    expected.mkdir()
    assert service_record("install", "--root", expected, "--all-services").status == 0
    given = {
        "service_record_root": str(root),
        "service_record_command": str(Path(sys.executable).with_name("service-record")),
        "service_record_options": ["--all-services"],
    }

    arguments = ("role.yml", "--extra-vars", json.dumps(given))
    first = play(ansible_playbook, tmp_path, *arguments)
    second = play(ansible_playbook, tmp_path, *arguments)

    assert "changed=1 " in first
    assert "changed=0 " in second
    assert "failed=0 " in second

    def installed(tree: Path) -> dict[str, tuple[int, bytes]]:
        files = (path for path in tree.rglob("*") if path.is_file())
        return {path.relative_to(tree).as_posix(): (path.stat().st_mode, path.read_bytes()) for path in files}

    found = installed(root)
    assert {name: found[name] for name in found if "installed.json" not in name} == {
        name: value for name, value in installed(expected).items() if "installed.json" not in name
    }
    assert service_record("uninstall", "--root", root).status == 0
    assert installed(root) == {}
