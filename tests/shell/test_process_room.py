"""The shim's look at limits of processes where they are those of version 2 of the control groups.

The controller itself may belong to version 1 here. So the process is in a real group of version 2, which
`/proc/self/cgroup` names, and the files of the limits are put where such a host has them.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SHIM = Path(__file__).parents[2] / "shell/bootstrap-service-record.sh"
ASK = """
echo $$ >"$1/cgroup.procs"
mount --bind "$2" /sys/fs/cgroup
__sr_pid=$BASHPID
. "$3"
if __sr_has_room; then echo room; else echo none; fi
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A group of version 2 with one in it, in the hierarchy that the host has mounted."""
    hierarchies = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
                   if " - cgroup2 " in line]  # fmt: skip
    if os.geteuid() != 0 or not hierarchies:
        pytest.skip("needs root, and a hierarchy of version 2")
    outer = Path(hierarchies[0]) / f"service-record-{os.getpid()}"
    inner = outer / "inner.service"
    try:
        inner.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    yield inner
    inner.rmdir()
    outer.rmdir()


LIMITS = {
    "no limit": ({"inner": ("max", 900)}, "room"),
    "just enough": ({"inner": ("10", 4)}, "room"),
    "one too few": ({"inner": ("10", 5)}, "none"),
    "a parent's": ({"inner": ("max", 5), "outer": ("10", 5)}, "none"),
    "a parent's, with room": ({"inner": ("10", 4), "outer": ("100", 5)}, "room"),
    "of the parent only": ({"outer": ("10", 9)}, "none"),
    "nothing to read": ({}, "room"),
}


@pytest.mark.parametrize(("limits", "answer"), LIMITS.values(), ids=LIMITS)
def test_parent_control_groups_are_read(
    limits: Mapping[str, tuple[str, int]], answer: str, group: Path, tmp_path: Path
) -> None:
    own = tmp_path / group.parent.name / group.name
    own.mkdir(parents=True)
    for name, (most, now) in limits.items():
        directory = own if name == "inner" else own.parent
        (directory / "pids.max").write_text(f"{most}\n")
        (directory / "pids.current").write_text(f"{now}\n")
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", ASK, "ask", group, tmp_path, SHIM],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{answer}\n", "")
