"""docs/operate.md: its table is the list of what is delivered."""

import re

from service_record.deploy.delivered import Option, contents
from tests.programs import REPOSITORY

PAGE = (REPOSITORY / "docs/operate.md").read_text()


def test_table_has_each_installed_path() -> None:
    table = PAGE.partition("<!-- contents -->")[2].partition("<!-- /contents -->")[0]
    rows = re.findall(r"^\| `--([a-z-]+)` \| `(/[^`]+)` \| (\w+) \|$", table, re.MULTILINE)
    assert rows == [
        (option.value, item.path, "link" if item.target else f"{item.mode:04o}")
        for option in Option
        for item in contents([option])
    ]
