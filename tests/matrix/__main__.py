"""Runs the matrix under every bash there is; writes tests/matrix/results and docs/shim-matrix.md anew."""

from bench.table import replace_between
from tests.matrix.page import PAGE, sections
from tests.matrix.table import NAMES, minor, outcomes, path_for
from tests.shell.scripts import bashes
from tests.signals import heed_all

heed_all()
for bash in bashes():
    for dimension in NAMES:
        lines = [str(outcome) for outcome in outcomes(bash, dimension)]
        path = path_for(minor(bash), dimension)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        print(f"{bash}: {len(lines)} {dimension}")
for name, text in sections().items():
    replace_between(PAGE, name, text)
