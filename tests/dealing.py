"""The order of the tests, where several processes share them."""

from collections.abc import Sequence
from itertools import chain, islice

import pytest


def dealt(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in one part for each process, of the sizes that `--dist=worksteal` first gives them.

    Each part begins with its share of what takes long: groups of tests that want the same costly thing, slow
    tests, .bats files, which are run as a whole by whoever wants the first of their tests, and modules that
    boot a machine, which many share.
    """
    runs: dict[object, list[pytest.Item]] = {}
    for item in items:
        runs.setdefault(_run_of(item), []).append(item)
    long = [run for run in runs.values() if _takes_long(run[0])]
    long.sort(key=lambda run: _group(run[0]) is None)
    short = chain.from_iterable(run for run in runs.values() if not _takes_long(run[0]))
    order: list[pytest.Item] = []
    for number in range(processes):
        share = list(chain.from_iterable(long[number::processes]))
        size = (len(items) - len(order)) // (processes - number)
        order += [*share, *islice(short, max(0, size - len(share)))]
    return [*order, *short]


def _run_of(item: pytest.Item) -> object:
    """Return what the tests have in common that one process is to run in a row."""
    if group := _group(item):
        return group
    if _is_in_bats(item):
        return item.parent
    return item.path if _boots(item) and not _is_slow(item) else item


def _takes_long(item: pytest.Item) -> bool:
    return _group(item) is not None or _is_slow(item) or _is_in_bats(item) or _boots(item)


def _group(item: pytest.Item) -> str | None:
    """Return the name of the `xdist_group` of a test, if it has one."""
    marker = item.get_closest_marker("xdist_group")
    return None if marker is None else str(marker.args[0])


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def _is_in_bats(item: pytest.Item) -> bool:
    return item.path.suffix == ".bats"


def _boots(item: pytest.Item) -> bool:
    return item.get_closest_marker("system") is not None
