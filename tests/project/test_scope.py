"""docs/project/scope.md: the tests it names exist, each row has a test or a reason, its numbers are right."""

import re
from xml.etree import ElementTree as ET

from tests.programs import REPOSITORY
from tests.project.scope import PAGE, faults

TEXT = PAGE.read_text()
PICTURE = PAGE.with_name("scope.svg")


def test_nothing_is_wrong_with_the_page() -> None:
    assert faults(TEXT) == []


def test_the_picture_is_on_the_page_and_has_colours_for_dark_pages() -> None:
    assert f"]({PICTURE.name})" in TEXT
    ET.parse(PICTURE)
    light, dark = (
        set(re.findall(r"\.(\w+) { (?:fill|stroke)", part))
        for part in PICTURE.read_text().split("prefers-color-scheme: dark")
    )
    assert light == dark != set()


def test_the_readme_leads_to_the_page() -> None:
    assert "](docs/project/scope.md)" in (REPOSITORY / "README.md").read_text()
