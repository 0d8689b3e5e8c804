"""The exit helper reads time limits as systemd prints them."""

import re
import subprocess

import pytest

from tests.shell.scripts import SHIM, Bash, bashes

HELPER = SHIM.with_name("service-record-close.sh").read_text()
FUNCTION = re.search(r"^has_passed\(\) \{.*?^\}$", HELPER, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("bash", bashes(), ids=str)
@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("90us", 90),
        ("1.500ms", 1500),
        ("20ms", 20_000),
        ("1.500000s", 1_500_000),
        ("3.000009s", 3_000_009),
        ("1min 30s", 90_000_000),
        ("1month 2w 13h 30min", 45 * 86_400_000_000),
        ("1y", 31_557_600_000_000),
        ("infinity", None),
        ("0", None),
    ],
)
def test_time_limit_is_read_to_the_microsecond(bash: Bash, text: str, microseconds: int | None) -> None:
    assert FUNCTION
    script = f"declare -A unit_state=([RuntimeMaxUSec]='{text}')\n{FUNCTION[0]}\n"
    for elapsed, is_over in (
        (microseconds or 10**15, microseconds is not None),
        ((microseconds or 1) - 1, False),
    ):
        done = subprocess.run(
            [bash.path, "-c", f"{script}has_passed 7 {7 + elapsed} RuntimeMaxUSec"],
            env={"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "HOME": "/"},
            check=False,
        )
        assert done.returncode == (0 if is_over else 1), elapsed
