"""`make report`: the size of each room, and the structure, for a review. Nothing here is a limit."""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path
from typing import Final

from tests.project.test_architecture import circle, module_needs, room_needs

PACKAGE: Final = Path(__file__).resolve().parents[2] / "service_record"
LONGEST: Final = 10


def main() -> None:
    rooms: dict[str, Counter[str]] = {}
    functions: list[tuple[int, str]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        below = path.relative_to(PACKAGE).parts
        room = rooms.setdefault(below[0] if len(below) > 1 else "(top)", Counter())
        room["modules"] += 1
        room["lines"] += text.count("\n")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        room["comments"] += sum(token.type == tokenize.COMMENT for token in tokens)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                room["functions"] += 1
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                functions.append((length, f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}"))
    columns = ("modules", "lines", "functions", "comments")
    print(f"{'room':<14}" + "".join(f"{column:>11}" for column in columns))
    total: Counter[str] = sum(rooms.values(), Counter())
    for name, room in [*rooms.items(), ("all", total)]:
        print(f"{name:<14}" + "".join(f"{room[column]:>11,}" for column in columns))
    arrows = {room: needs - {"version"} for room, needs in room_needs().items() if room != "version"}
    print(f"\n{len(arrows)} rooms, {sum(map(len, arrows.values()))} arrows, {len(circle(arrows))} in circles")
    modules = module_needs(PACKAGE)
    number = sum(map(len, modules.values()))
    print(f"{len(modules)} modules, {number} arrows, {len(circle(modules))} in circles")
    print("\nlongest functions")
    for length, place in sorted(functions, reverse=True)[:LONGEST]:
        print(f"{length:>5} lines  {place}")


if __name__ == "__main__":
    main()
