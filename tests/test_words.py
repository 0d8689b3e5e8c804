"""The words of names, docstrings and pages are plain: docs/glossary.md, and what CONTRIBUTING.md
says of words.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

from testing.machine import REPOSITORY

PROGRAMS: Final = ("service_record", "bench", "testing", "packages", "demo", "examples")
"""Folders whose names and docstrings are plain throughout, beside the modules at the top."""
PAGES: Final = (
    *sorted((REPOSITORY / "docs").glob("*.md")),
    REPOSITORY / "docs" / "examples" / "README.md",
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md")),
)
BANNED: Final = frozenset(
    re.findall(
        r"\w+",
        "told said found known heard kept gone held seen taken given made shown asked left meant wanted "
        "settled arrived learnt believed listed ",
    )
)
"""Bare participles do not say what they hold: a name is a noun, a verb phrase, or begins with is_ or has_."""
NO_VERBS: Final = frozenset(
    re.findall(
        r"\w+",
        "a all also an as at by each every for from how if in it its no not nothing of on one only some "
        "that the those this until what when where whether which who whom whose why with without ",
    )
)
"""A docstring of a function begins with a verb, and none of these is one."""
CLAUSES: Final = frozenset({"what", "that", "whether", "who", "whom", "which", "where", "when", "how", "why"})
"""A docstring of a class or constant says what it is, in a noun phrase or with a verb, not in a clause."""
MAX_COLUMNS: Final = 128
MAX_CELL: Final = 200
MAX_TERMS: Final = 40
MAX_WORDS: Final = 30
"""Words of a sentence. Code in it, which is often a list of names, does not count."""


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Return the modules of our programs by their path."""
    folders = [REPOSITORY / each for each in PROGRAMS]
    return parsed([*REPOSITORY.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))])


@cache
def modules_of_tests() -> list[tuple[str, ast.Module]]:
    """Return the modules of the tests by their path."""
    return parsed((REPOSITORY / "tests").rglob("*.py"))


def parsed(paths: Iterable[Path]) -> list[tuple[str, ast.Module]]:
    """Parse all but migrations, which stay as they are."""
    return [
        (str(path.relative_to(REPOSITORY)), ast.parse(path.read_text()))
        for path in sorted(paths)
        if "migrations" not in path.parts
    ]


def names_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, but for fields of classes: these are words of files
    and documents.
    """
    fields = {
        id(name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for name in _field_names(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.lineno, node.id


def _field_names(of: ast.ClassDef) -> Iterator[ast.AST]:
    for statement in of.body:
        if isinstance(statement, ast.AnnAssign):
            yield statement.target
        elif isinstance(statement, ast.Assign):
            yield from statement.targets


def banned_names(tree: ast.Module) -> list[tuple[int, str]]:
    return [(line, name) for line, name in names_in(tree) if name.lstrip("_").lower() in BANNED]


def nouns_first(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the docstrings of functions that do not begin with a verb."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    docstrings = ((each.lineno, ast.get_docstring(each)) for each in functions)
    return [(line, text) for line, text in docstrings if text and text.split()[0].lower() in NO_VERBS]


def clauses_first(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the docstrings of classes that begin with a clause."""
    classes = (
        (each.lineno, ast.get_docstring(each)) for each in ast.walk(tree) if isinstance(each, ast.ClassDef)
    )
    return [(line, text) for line, text in classes if text and text.split()[0].lower() in CLAUSES]


def clause_of_module(tree: ast.Module) -> list[str]:
    """Return the docstring of a module if it begins with a clause."""
    text = ast.get_docstring(tree)
    return [text] if text and text.split()[0].lower() in CLAUSES else []


def clauses_of_constants(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the texts below constants and fields that begin with a clause."""
    texts = (text for each in ast.walk(tree) for text in _below_assignments(each))
    return [(line, text) for line, text in texts if text.split()[0].lower() in CLAUSES]


def _below_assignments(node: ast.AST) -> Iterator[tuple[int, str]]:
    statements = node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else []
    for before, statement in pairwise(statements):
        match before, statement:
            case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str() as text)):
                yield statement.lineno, text


def clauses_of_helpers(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the docstrings of functions that begin with a clause; those of tests are prose."""
    helpers = (
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.name.startswith("test_")
    )
    texts = ((each.lineno, ast.get_docstring(each)) for each in helpers)
    return [(line, text) for line, text in texts if text and text.split()[0].lower() in CLAUSES]


def long_lines(text: str) -> list[int]:
    """Return the lines of prose that are too long to read; tables and code have no other way."""
    text = re.sub(
        r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL
    )
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MAX_COLUMNS and not line.startswith(("|", "    ", "<", "["))
    ]


def long_cells(text: str) -> list[str]:
    """Return the cells that hold too much; names of tests and commands in them do not count."""
    rows = (line for line in text.splitlines() if line.startswith("|"))
    cells = (re.sub(r"`[^`]*`|\]\([^)]*\)", "", cell).strip() for row in rows for cell in row.split("|"))
    return [cell for cell in cells if len(cell) > MAX_CELL]


def long_sentences(text: str) -> list[str]:
    """Return the sentences of prose that nobody reads in one breath; tables and code are not prose."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    long = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) |\|)", text):
        lines = (line.strip() for line in paragraph.splitlines() if not line.startswith(("    ", "|", "#")))
        prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", " ".join(lines))
        sentences = re.split(r"(?<=[.!?])[)\"*]*\s+", prose)
        words = (re.findall(r"\S*\w\S*", sentence) for sentence in sentences)
        long += [" ".join(each) for each in words if len(each) > MAX_WORDS]
    return long


def test_no_name_is_a_bare_participle() -> None:
    wrong = [f"{path}:{line}: {name}" for path, tree in modules() for line, name in banned_names(tree)]
    assert not wrong, "\n".join(wrong)


def test_every_docstring_of_a_function_begins_with_a_verb() -> None:
    wrong = [f"{path}:{line}: {text[:60]}" for path, tree in modules() for line, text in nouns_first(tree)]
    assert not wrong, "\n".join(wrong)


def test_no_docstring_of_a_class_begins_with_a_clause() -> None:
    everything = [*modules(), *modules_of_tests()]
    wrong = [f"{path}:{line}: {text[:60]}" for path, tree in everything for line, text in clauses_first(tree)]
    assert not wrong, "\n".join(wrong)


def test_no_docstring_of_a_module_begins_with_a_clause() -> None:
    wrong = [f"{path}: {text[:60]}" for path, tree in modules() for text in clause_of_module(tree)]
    assert not wrong, "\n".join(wrong)


def test_no_text_of_a_constant_or_field_begins_with_a_clause() -> None:
    trees = modules() + modules_of_tests()
    wrong = [
        f"{path}:{line}: {text[:60]}" for path, tree in trees for line, text in clauses_of_constants(tree)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_docstring_of_a_helper_begins_with_a_clause() -> None:
    wrong = [
        f"{path}:{line}: {text[:60]}"
        for path, tree in modules_of_tests()
        for line, text in clauses_of_helpers(tree)
    ]
    assert not wrong, "\n".join(wrong)


def test_pages_have_lines_and_cells_that_can_be_read() -> None:
    wrong = [f"{page.name}:{line}: too long" for page in PAGES for line in long_lines(page.read_text())]
    wrong += [f"{page.name}: {cell[:60]}..." for page in PAGES for cell in long_cells(page.read_text())]
    assert not wrong, "\n".join(wrong)


def test_no_sentence_of_a_page_is_too_long() -> None:
    wrong = [f"{page.name}: {sentence}" for page in PAGES for sentence in long_sentences(page.read_text())]
    assert not wrong, "\n".join(wrong)


def test_the_glossary_has_a_term_once_and_is_short() -> None:
    page = (REPOSITORY / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE)[2:]
    assert len(terms) == len(set(terms)) <= MAX_TERMS
    assert terms == sorted(terms, key=str.lower)


def test_planted_faults_are_seen() -> None:
    tree = ast.parse(
        'def told(seen: int) -> int:\n    """What it is."""\n    found = seen\n    return found\n'
        'class Answer:\n    """What it is."""\n\n    kept: int\n    """How many."""\n'
        'def test_it() -> None:\n    """What is prose."""\n'
    )
    assert [name for _, name in banned_names(tree)] == ["told", "seen", "found"]
    assert [line for line, _ in nouns_first(tree)] == [1, 10]
    assert [text for _, text in clauses_first(tree)] == ["What it is."]
    assert [text for _, text in clauses_of_constants(tree)] == ["How many."]
    assert clause_of_module(ast.parse('"""What it is."""')) == ["What it is."]
    assert clauses_of_helpers(tree) == [(1, "What it is.")]
    assert long_lines("short\n" + "x" * 129 + "\n| " + "x" * 129) == [2]
    assert long_cells("| " + "word " * 41 + "| `" + "x" * 300 + "` |") == [("word " * 41).strip()]


def test_a_planted_long_sentence_is_seen_and_code_does_not_count() -> None:
    long, code = "word " * 31, "`name` " * 40
    assert len(long_sentences(f"- One.\n- {long.strip()}.\n\n    {long}\n\n| {long} |\n")) == 1
    assert not long_sentences(f"Facts are {code}. {'word ' * 30}.")


def test_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 120
