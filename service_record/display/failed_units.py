"""The page of `show` where there are no records, only units that systemd says have failed."""

from collections.abc import Iterator, Sequence

from service_record.diagnosis.findings import FailedUnit
from service_record.display.sentences import failed_unit_sentence
from service_record.display.text import BLANK, Ink, Line, View, count, wrap
from service_record.record.visible import visible


def failed_units_page(units: Sequence[FailedUnit], source: str, view: View) -> Iterator[Line]:
    """Say which units failed, where there are no records that tell more."""
    yield ((f"no records: {count(len(units), 'unit')} failed", Ink.STRONG),)
    yield ((visible(source), Ink.FAINT),)
    yield BLANK
    for failed in units:
        for row in wrap(failed_unit_sentence(failed), view.width):
            yield ((row, Ink.BAD),)
