"""Select the tests that only `make test-all` runs: long tests, and those with special requirements."""

from pathlib import Path
from typing import Final

import pytest

from tests.shell.scripts import every_bash

REPOSITORY: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("tests/fuzz/", "tests/initramfs/", "tests/torture/", "tests/endings/", "tests/matrix/")
FILES: Final = (
    "tests/collector/test_demo.py",
    "tests/collector/test_durability.py",
    "tests/collector/test_hostile_clients.py",
    "tests/collector/test_hosts_command.py",
    "tests/collector/test_last_words_sent.py",
    "tests/collector/test_pipeline.py",
    "tests/collector/test_plain_databases.py",
    "tests/collector/test_several_processes.py",
    "tests/collector/test_snippet_logs.py",
    "tests/collector/test_tls.py",
    "tests/shell/forks.bats",
    "tests/shell/long.bats",
    "tests/shell/test_failsafe.py",
    "tests/record/test_array_concurrency.py",
    "tests/record/test_array_harm.py",
    "tests/record/test_array_lock.py",
    "tests/record/test_array_signals.py",
    "tests/bundle/test_hostile.py",
    "tests/display/test_any_chart.py",
    "tests/reporter/test_cleanup.py",
    "tests/cli/test_bundle.py",
    "tests/packages/test_ansible.py",
    "tests/packages/test_container.py",
    "tests/diagnosis/test_any_diagnosis.py",
    "tests/packages/test_executables.py",
    "tests/export/test_export.py",
    "tests/cli/test_follow.py",
    "tests/read/test_live_file.py",
    "tests/packages/test_gatherers.py",
    "tests/cli/test_growth.py",
    "tests/reporter/test_host_page.py",
    "tests/cli/test_hostile_inputs.py",
    "tests/deploy/test_installing.py",
    "tests/record/test_lasting.py",
    "tests/packages/test_packages.py",
    "tests/shell/test_patterns.py",
    "tests/record/test_decoding.py",
    "tests/redaction/test_exact.py",
    "tests/redaction/test_shapes.py",
    "tests/reporter/test_any.py",
    "tests/reporter/test_evidence.py",
    "tests/rotation/test_rotation.py",
    "tests/reporter/test_round.py",
    "tests/shell/test_concurrency.py",
    "tests/shell/test_harm.py",
    "tests/shell/test_signals.py",
    "tests/docs/test_single_node.py",
    "tests/deploy/test_snippets.py",
    "tests/reporter/test_spool.py",
    "tests/packages/test_standalone.py",
    "tests/export/test_traces.py",
    "tests/triage/test_planted.py",
    "tests/packages/test_wheel.py",
    "tests/cli/test_wrong_commands.py",
)
"""Files whose tests take long or need packages."""
BOOTED: Final = ("tests/system/test_lives.py", "tests/system/test_users.py")
"""The only tests with a real systemd that `make test` runs."""
FIXTURES: Final = frozenset({"browser", "chromium", "executable", "postgresql_settings"})


def is_thorough_path(path: Path) -> bool:
    """Return whether `make test` skips the whole file or folder."""
    name = path.relative_to(REPOSITORY).as_posix() + ("/" if path.is_dir() else "")
    return name.startswith((*FOLDERS, *FILES))


def is_thorough(item: pytest.Item) -> bool:
    """Return whether only `make test-all` runs this test."""
    name = item.nodeid
    if item.get_closest_marker("slow") is not None or name.startswith((*FOLDERS, *FILES)):
        return True
    if name.startswith("tests/system/") and not name.startswith(BOOTED):
        return True
    if "postgresql" in name or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    return any(f"bash-{bash.version}" in name for bash in every_bash()[1:])
