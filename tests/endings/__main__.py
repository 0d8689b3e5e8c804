"""Prints how exactly the shim tells where a script failed, as docs/shell.md shows it."""

from tests.endings.judge import COUNTED, score
from tests.endings.kinds import OPTIONS, kinds
from tests.shell.scripts import bashes

print(f"{len(kinds())} kinds of ending; those that end in failure, by what the record says of the line:\n")
print("| bash | options |", " | ".join(COUNTED), "| exact |")
print("|---|---|" + "---:|" * (len(COUNTED) + 1))
for bash in bashes():
    for options, command in OPTIONS.items():
        counts = score(bash, options)
        failed = sum(counts[verdict] for verdict in COUNTED)
        cells = [str(counts[verdict]) for verdict in COUNTED]
        shown = "none" if command == ":" else f"`{command}`"
        print(f"| {bash.version} | {shown} |", " | ".join(cells), f"| {counts[COUNTED[0]] / failed:.0%} |")
