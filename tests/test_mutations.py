"""`make mutants` changes what code does, and nothing else of it."""

import ast

from tests.mutations import mutated, mutations

SOURCE = '''\
LIMIT = 3


@cache
def least(first: int, second: int = 1) -> int:
    """Return the least."""
    if first < second and not is_odd(first):
        raise ValueError(f"{first + 1}")
    return (
        second
        or first + 1
    )
'''


def test_what_a_function_does_is_changed_and_no_message_annotation_or_limit() -> None:
    made = mutations(SOURCE)
    assert [(each.line, each.statement, each.text.partition(" -> ")[2]) for each in made] == [
        (7, 7, "if not (first < second and (not is_odd(first))):"),
        (7, 7, "first < second or not is_odd(first)"),
        (7, 7, "first <= second"),
        (7, 7, "not not is_odd(first)"),
        (9, 9, "return None"),
        (10, 9, "second and first + 1"),
        (11, 9, "first - 1"),
        (11, 9, "2"),
    ]
    texts = {ast.unparse(mutated(SOURCE, each.number)) for each in made}
    assert len(texts | {ast.unparse(ast.parse(SOURCE))}) == len(made) + 1
