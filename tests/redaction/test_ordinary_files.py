"""False positives on the text files of this machine."""

import os
from pathlib import Path
from typing import Final

import pytest

from service_record.redaction.places import PLACES
from tests.redaction.ordinary_files import count_altered

FOLDERS: Final = (Path("/etc"), Path("/var/log"), Path("/usr/share/doc"))
SHARE: Final = 0.0003
MIN_LINES: Final = 100_000


@pytest.mark.slow
def test_files_of_a_machine_stay() -> None:
    places = frozenset(path for place in PLACES for path in Path("/").glob(place.pattern))
    counted = count_altered([folder for folder in FOLDERS if os.access(folder, os.R_OK)], places)
    if counted.lines < MIN_LINES:
        pytest.skip(f"{counted.lines} lines are too few")
    assert len(counted.altered) <= SHARE * counted.lines, counted.altered[:20]
