"""Workflows, hooks, releases and frozen names, by which people join and trust the project."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import service_record
from service_record.cli import VERBS
from service_record.version import RELEASED, __version__
from testing.machine import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
SHIM = (REPOSITORY / "shell/bootstrap-service-record.sh").read_text()
FROZEN_NAMES = {
    *("Entry", "Failure", "Malformed", "Phase", "Recording", "Records", "Result", "Service", "__version__"),
    *("end_service", "end_stage", "post_command", "pre_command", "service", "stage"),
    *("RecentLinesHandler", "start_service", "start_stage"),
}
FROZEN_VERBS = {
    *(
        "analyze",
        "assisted",
        "bundle",
        "collector",
        "diff",
        "doctor",
        "export",
        "follow",
        "hosts",
        "ignition",
        "initrd",
    ),
    *("install", "mcp", "preflight", "report", "rotate", "run", "ship", "show", "snippet", "timeline"),
    *("triage", "uninstall", "validate"),
}
FROZEN_FUNCTIONS = {f"record_service_stage_{what}" for what in ("start", "success", "failure")}


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def runs_make(command: str) -> bool:
    """Return True if the command is `make` with an existing target, perhaps with variables."""
    words = command.split()
    return words[0] == "make" and words[1] in TARGETS and all("=" in word for word in words[2:])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_steps_are_make_targets(workflow: Path) -> None:
    commands = [step["run"] for step in steps_of(workflow) if "run" in step]

    assert any(map(runs_make, commands))
    assert not [each for each in commands if not runs_make(each) and each != "${{ matrix.prepare }}"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_hash(workflow: Path) -> None:
    actions = [step["uses"] for step in steps_of(workflow) if "uses" in step]

    assert actions
    assert not [each for each in actions if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", each)]


def test_release_has_attestation_permissions() -> None:
    release = yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text())
    (job,) = release["jobs"].values()

    assert job["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    (attested,) = [step for step in job["steps"] if "attest-build-provenance" in step.get("uses", "")]
    assert attested["with"] == {"subject-path": "dist/*"}


def test_commit_hooks_use_installed_programs() -> None:
    """They must run without a network, and only on changed files."""
    repositories = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]

    assert [each["repo"] for each in repositories] == ["local"]
    hooks = [hook for each in repositories for hook in each["hooks"]]
    assert hooks
    for hook in hooks:
        assert hook["language"] == "system"
        assert not hook.get("always_run")
        assert os.access(REPOSITORY / hook["entry"].split()[0], os.X_OK)


def test_changelog_has_version_and_date() -> None:
    assert f"\n## {__version__} - {RELEASED}\n" in (REPOSITORY / "CHANGELOG.md").read_text()


def released(tree: Path) -> str:
    """Run what `make release` runs, up to its first refusal, in a tree; return what it says."""
    answer = subprocess.run([".ci/release"], cwd=tree, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    return answer.stderr


def test_unprepared_release_is_refused(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=N", "-c", "user.email=n@example.com")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    for name in (".ci/release", "service_record/version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((REPOSITORY / name).read_bytes())
    (tmp_path / ".ci/release").chmod(0o755)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("## Unreleased\n")
    git("init", "--quiet")

    assert "the tree has changes" in released(tmp_path)
    git("add", ".")
    git("commit", "--message=x")
    assert f"no section '## {__version__} - DATE'" in released(tmp_path)
    changelog.write_text(f"## {__version__} - {RELEASED}\n")
    git("commit", "--all", "--message=y")
    git("tag", f"v{__version__}")
    assert f"the tag v{__version__} exists" in released(tmp_path)


def test_stability_page_lists_the_frozen_names() -> None:
    """docs/stability.md. A word that is new is added here; one that goes takes a major version."""
    assert set(service_record.__all__) == FROZEN_NAMES
    assert set(VERBS) == FROZEN_VERBS
    defined = re.findall(r"^(record_service_stage_\w+) ?\(\)", SHIM, re.MULTILINE)
    assert set(defined) == FROZEN_FUNCTIONS
