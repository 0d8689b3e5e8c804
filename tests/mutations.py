"""Small changes of code that tests should notice: made of the syntax, inside of functions.

Not changed is what no test should notice: messages, docstrings, annotations, decorators (such as caches), and
what stands at the top of a module (limits are there, which tests measure). A result that is True or False is
turned round, and not also made None: who asks only whether it holds, cannot tell None from False.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

Change = Callable[[ast.AST], None]
Placed = tuple[ast.expr | ast.stmt, Change, str, int]
"""A node, what changes it in place, how that looks, and the line of its statement."""

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SUMS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """The `number`th change of the code of a module, its line, and that at which its statement begins."""

    number: int
    line: int
    statement: int
    text: str


def mutations(source: str) -> list[Mutation]:
    """Return every change that is made of this code."""
    return [
        Mutation(number, node.lineno, statement, text)
        for number, (node, _, text, statement) in enumerate(_changes(ast.parse(source)))
    ]


def mutated(source: str, number: int) -> ast.Module:
    """Return the code with one change."""
    tree = ast.parse(source)
    node, change, _, _ = next(each for at, each in enumerate(_changes(tree)) if at == number)
    change(node)
    return ast.fix_missing_locations(tree)


def _changes(tree: ast.Module) -> Iterator[Placed]:
    for function in _functions(tree):
        for statement in function.body:
            if not _is_text(statement):
                yield from _within(statement, statement.lineno)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the outermost functions; those within them belong to them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If):
            yield from _functions(node)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _within(node: ast.AST, statement: int) -> Iterator[Placed]:
    statement = node.lineno if isinstance(node, ast.stmt) else statement
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom) or _is_text_of(node):
        return
    if isinstance(node, ast.expr | ast.stmt):
        before = _first_line(node)
        for change in _of(node):
            after = copy.deepcopy(node)
            change(after)
            yield node, change, f"{before} -> {_first_line(after)}", statement
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "args"} and not isinstance(node, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _within(child, statement)


def _is_text_of(node: ast.AST) -> bool:
    """Return whether a node is a text for people."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.stmt) and _is_text(node))


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0][:70]


def _of(node: ast.AST) -> Iterator[Change]:  # noqa: C901  # a table of forms
    """Yield the changes of a node itself."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                yield _comparison(place, _COMPARISONS[type(operator)])
        case ast.BoolOp():
            yield _boolean
        case ast.UnaryOp(op=ast.Not()):
            yield _without_not
        case ast.BinOp() if type(node.op) in _SUMS and not _is_of_texts(node):
            yield _sum
        case ast.AugAssign() if type(node.op) in _SUMS:
            yield _sum
        case ast.Constant(value=bool()):
            yield _other_constant
        case ast.Constant(value=int() | float()):
            yield _other_constant
        case ast.If() | ast.While() | ast.IfExp():
            yield _negated
        case ast.Return(value=ast.expr() as value) if not _is_word(value):
            yield _none
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            yield _nothing
        case ast.Continue():
            yield _to_break


def _is_of_texts(node: ast.BinOp) -> bool:
    texts = (ast.JoinedStr, ast.Constant)
    return any(
        isinstance(side, texts) and not isinstance(getattr(side, "value", ""), int | float)
        for side in (node.left, node.right)
    )


def _is_word(value: ast.expr) -> bool:
    """Return whether that is None, True or False."""
    return isinstance(value, ast.Constant) and isinstance(value.value, bool | None)


def _comparison(place: int, operator: type[ast.cmpop]) -> Change:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[place] = operator()

    return change


def _boolean(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _without_not(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)


def _sum(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp | ast.AugAssign)
    node.op = _SUMS[type(node.op)]()


def _other_constant(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, int | float)
    node.value = not node.value if isinstance(node.value, bool) else node.value + 1


def _negated(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.While | ast.IfExp)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _none(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)


def _nothing(node: ast.AST) -> None:
    assert isinstance(node, ast.Expr)
    node.value = ast.Constant(None)


def _to_break(node: ast.AST) -> None:
    node.__class__ = ast.Break
