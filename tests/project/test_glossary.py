"""The glossary of docs/glossary.md has each term once, in order."""

import re

from testing.machine import REPOSITORY


def test_glossary_terms_are_unique_and_sorted() -> None:
    page = (REPOSITORY / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE)[2:]
    assert len(terms) == len(set(terms))
    assert terms == sorted(terms, key=str.lower)
