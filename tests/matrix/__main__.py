"""Run the matrix under every bash that the tests find, and rewrite tests/matrix/results."""

from tests.matrix.table import NAMES, get_minor_version, get_path, run_dimension
from tests.shell.scripts import every_bash
from tests.signals import restore_default_signals

restore_default_signals()
for bash in every_bash():
    for dimension in NAMES:
        lines = [str(outcome) for outcome in run_dimension(bash, dimension)]
        path = get_path(get_minor_version(bash), dimension)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
        print(f"{bash}: {len(lines)} {dimension}")
