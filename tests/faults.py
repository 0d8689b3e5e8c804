"""Test many cases in a loop and report all failures, not only the first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class Faults:
    """Collects the failures of a loop; the end of the block raises `AssertionError` with all of them.

    with Faults() as faults:
        for case in cases:
            with faults.case(case.name):
                assert ...
    """

    def __init__(self) -> None:
        self._found: list[str] = []
        self._cases = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        __tracebackhide__ = True
        if kind is not None:
            return
        assert self._cases, "there were no cases"
        if self._found:
            raise AssertionError(f"{len(self._found)} of {self._cases} cases:\n" + "\n".join(self._found))

    @contextmanager
    def case(self, name: object) -> Iterator[None]:
        """Note an exception in the block as a failure of this case."""
        self._cases += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001  # after any exception, the next case must run
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            self._found.append(f"- {name}: {kind}{error}")
