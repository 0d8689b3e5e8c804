"""What a rotation left out of a record: how many runs, and what they came to. An entry carries it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service_record import fields

FOR_SIZE: Final = "size"
"""The reason: the record had outgrown its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The runs that were left out right before the run whose first entry carries this."""

    reason: str = FOR_SIZE
    succeeded: int = 0
    stopped: int = 0
    failed: int = 0
    """Runs that failed, were interrupted, or continued after a failure."""
    alike: int = 0
    """How many of them, in a row up to this run, came to the same end in the same place as this run."""
    boots: int = 0
    """Earlier boots of which no run is left."""
    boot_runs: int = 0
    """The runs of those boots, which are in no other number here."""
    rotations: int = 0
    """On the first entry of a file: how often the file was rotated. No two beginnings of it are the same."""

    @property
    def runs(self) -> int:
        """Return how many runs of the same boot were left out."""
        return self.succeeded + self.stopped + self.failed

    def to_json(self) -> dict[str, object]:
        """Return the numbers that are not 0, under their names on disk."""
        numbers = {name: getattr(self, attribute) for name, attribute in _NUMBERS.items()}
        return {"reason": self.reason} | {name: number for name, number in numbers.items() if number}


_NUMBERS: Final = {
    "succeeded": "succeeded",
    "stopped": "stopped",
    "failed": "failed",
    "alike": "alike",
    "boots": "boots",
    "bootRuns": "boot_runs",
    "rotations": "rotations",
}


def read_left_out(name: str, found: object) -> LeftOut:
    """Return what an entry says was left out before it. Raises `EntryError` on any other kind of value."""
    if not isinstance(found, Mapping):
        raise fields.EntryError(f"{name}: expected an object, found {fields.shown(found)}")
    known: dict[str, int] = {}
    for key, value in found.items():
        attribute = _NUMBERS.get(key)
        if attribute is not None:
            known[attribute] = fields.whole_number(f"{name}.{key}", value)
            if known[attribute] < 0:
                raise fields.EntryError(f"{name}.{key}: expected a count, found {fields.shown(value)}")
    return LeftOut(reason=fields.text(f"{name}.reason", found.get("reason", FOR_SIZE)), **known)
