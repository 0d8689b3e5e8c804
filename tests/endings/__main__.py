"""Prints how exactly the shim tells where a script failed, as docs/shell.md shows it."""

from tests.endings.judge import COUNTED, endings, score
from tests.endings.kinds import OPTIONS, kinds
from tests.shell.scripts import every_bash

DOUBTFUL = sum(kind.doubtful for kind in kinds())
print(f"{len(kinds()) - DOUBTFUL} kinds of ending, {DOUBTFUL} doubtful ones; the lines of failures:\n")
columns = [*COUNTED, *(f"doubtful: {verdict}" for verdict in COUNTED)]
print("| bash | options |", " | ".join(columns), "|")
print("|---|---|" + "---:|" * len(columns))
for bash in sorted(every_bash(), key=lambda bash: bash.version):
    endings(bash)
    for options, command in OPTIONS.items():
        shown = "none" if command == ":" else f"`{command}`"
        scores = (score(bash, options, doubtful=doubtful) for doubtful in (False, True))
        counts = [str(counted[verdict]) for counted in scores for verdict in COUNTED]
        print(f"| {bash.version} | {shown} |", " | ".join(counts), "|")
