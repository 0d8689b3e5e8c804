"""Runs the matrix under every bash there is; writes tests/matrix/results anew."""

from tests.matrix.table import NAMES, minor, outcomes, path_for
from tests.shell.scripts import every_bash
from tests.signals import restore_default_signals

restore_default_signals()
for bash in every_bash():
    for dimension in NAMES:
        lines = [str(outcome) for outcome in outcomes(bash, dimension)]
        path = path_for(minor(bash), dimension)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        print(f"{bash}: {len(lines)} {dimension}")
