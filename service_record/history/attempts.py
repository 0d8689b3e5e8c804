"""Attempts: what the runs of programs that systemd started together came to. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from service_record.history.outcome import Outcome, Run, order
from service_record.history.settled import Head


def attempts(runs: Iterable[Head]) -> Iterator[Head]:
    """The run that stands for each attempt, in their order."""
    for _, together in groupby(runs, key=attrgetter("attempt", "boot_id")):
        yield _deciding(list(together))


def _deciding(together: Sequence[Head]) -> Head:
    """Of the programs of one invocation, the one that goes on, or else the one that ended last.

    A service that runs another recorded program ends after it; a program after its pre-commands.
    """
    if len(together) == 1:
        return together[0]
    running = next((run for run in together if run.outcome is Outcome.RUNNING), None)
    deciding = running or max(reversed(together), key=lambda run: order(run.last_entry))
    left_out = next((run.left_out for run in together if run.left_out is not None), None)
    return replace(deciding, left_out=left_out) if left_out and isinstance(deciding, Run) else deciding
