"""docs/project/scope.md: the tests it names exist, each row has a test or a reason, its numbers are right."""

import re
from xml.etree import ElementTree as ET

from tests.programs import REPOSITORY
from tests.project.scope import PAGE, faults

TEXT = PAGE.read_text()
PICTURE = PAGE.with_name("scope.svg")


def test_scope_page_is_consistent() -> None:
    assert faults(TEXT) == []


def test_scope_picture_has_dark_colours() -> None:
    assert f"]({PICTURE.name})" in TEXT
    ET.parse(PICTURE)
    light, dark = (
        set(re.findall(r"\.(\w+) { (?:fill|stroke)", part))
        for part in PICTURE.read_text().split("prefers-color-scheme: dark")
    )
    assert light == dark != set()


def test_readme_links_to_scope() -> None:
    assert "](docs/project/scope.md)" in (REPOSITORY / "README.md").read_text()
