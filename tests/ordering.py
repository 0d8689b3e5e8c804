"""Order the tests for several test processes."""

from collections.abc import Sequence
from itertools import chain, islice

import pytest


def arrange_tests(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests as one part for each process, in the sizes that `--dist=worksteal` first assigns.

    Each part starts with a share of the long tests: groups that share an expensive fixture, slow tests, .bats
    files, which run as a whole for their first test, and modules whose tests share a booted machine.
    """
    runs: dict[object, list[pytest.Item]] = {}
    for item in items:
        runs.setdefault(_get_run_key(item), []).append(item)
    long = [run for run in runs.values() if _takes_long(run[0])]
    long.sort(key=lambda run: _get_group(run[0]) is None)
    short = chain.from_iterable(run for run in runs.values() if not _takes_long(run[0]))
    order: list[pytest.Item] = []
    for number in range(processes):
        share = list(chain.from_iterable(long[number::processes]))
        size = (len(items) - len(order)) // (processes - number)
        order += [*share, *islice(short, max(0, size - len(share)))]
    return [*order, *short]


def _get_run_key(item: pytest.Item) -> object:
    """Return a key that is equal for tests to run one after the other in the same process."""
    if group := _get_group(item):
        return group
    if _is_in_bats(item):
        return item.parent
    return item.path if _boots_machine(item) and not _is_slow(item) else item


def _takes_long(item: pytest.Item) -> bool:
    return _get_group(item) is not None or _is_slow(item) or _is_in_bats(item) or _boots_machine(item)


def _get_group(item: pytest.Item) -> str | None:
    """Return the name of the `xdist_group` of a test, or None."""
    marker = item.get_closest_marker("xdist_group")
    return None if marker is None else str(marker.args[0])


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def _is_in_bats(item: pytest.Item) -> bool:
    return item.path.suffix == ".bats"


def _boots_machine(item: pytest.Item) -> bool:
    return item.get_closest_marker("system") is not None
