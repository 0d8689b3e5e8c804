"""Pages and options agree: each option is on a page of its verb, and each option on a page exists."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from tests.cli.test_output_forms import commands

REPOSITORY = Path(__file__).resolve().parents[2]
OF_ALL_VERBS = {"--help", "--utc", "--local", "--relative", "--color", "--no-pager", "--pager"}
"""Options that docs/cli.md explains once."""
OTHERS = {
    "docs/standalone.md": {"--onefile"},  # PyInstaller
    "docs/single-node.md": {"--once-from"},  # machine-config-daemon
}
"""Page -> options of other programs on it."""


@cache
def options() -> dict[str, set[str]]:
    """Return the options of each command, by its name such as `collector token list`."""
    return {
        name: {
            "--help",
            "-h",
            *(
                word
                for each in command.params
                if isinstance(each, click.Option)
                for word in (*each.opts, *each.secondary_opts)
            ),
        }
        for name, command in commands()
    }


@cache
def pages() -> dict[str, str]:
    """Return the text of each page for users, with continued lines joined."""
    paths = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    texts = {str(path.relative_to(REPOSITORY)): path.read_text() for path in paths}
    return {name: re.sub(r"\\\n\s*", " ", text) for name, text in texts.items()}


def test_each_option_is_on_its_verbs_page() -> None:
    missing = []
    for name, words in options().items():
        mention = re.compile(rf"service-record {name}\b|`{name}[ `]|## {name}\b")
        text = "\n".join(page for page in pages().values() if mention.search(page))
        long = {word for word in words - OF_ALL_VERBS if word.startswith("--")}
        missing += [f"{name} {word}" for word in long if not re.search(rf"{word}(?![\w-])", text)]
    assert missing == []
    assert all(word in pages()["docs/cli.md"] for word in OF_ALL_VERBS - {"--pager"})


def calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of service-record in a page: the verb with its subcommand, and the other words."""
    for match in re.finditer(r"service-record ([a-z][^|`#>;)&\n]*)", text):
        words = match[1].split()
        size = next((n for n in (3, 2, 1) if " ".join(words[:n]) in options()), 0)
        if size:
            name, rest = " ".join(words[:size]), words[size:]
            yield name, rest[: rest.index("--")] if "--" in rest else rest


def test_each_option_on_a_page_exists() -> None:
    unknown = []
    for page, text in pages().items():
        for name, words in calls(text):
            given = {word.split("=")[0].strip(".,:\"'") for word in words if re.match(r"--?[a-z]", word)}
            unknown += [f"{page}: {name} {word}" for word in given - options()[name]]
    assert unknown == []


def test_each_option_that_a_page_names_exists() -> None:
    known = set().union(*options().values())
    unknown = []
    for page, text in pages().items():
        named = set(re.findall(r"`(--[a-z][a-z-]*)(?:[ =\[][^`]*)?`", text)) - OTHERS.get(page, set())
        unknown += [f"{page}: {word}" for word in named - known]
    assert unknown == []
