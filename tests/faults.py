"""Many cases in one test: every fault is reported, and not the first alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class Faults:
    """Collects what goes wrong in the cases of a loop; leaving it raises `AssertionError` with all of them.

    with Faults() as faults:
        for case in cases:
            with faults.of(case.name):
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
    def of(self, case: object) -> Iterator[None]:
        """Note what the body raises as a fault of this case."""
        self._cases += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001  # whatever it is, the other cases are tried too
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            self._found.append(f"- {case}: {kind}{error}")
