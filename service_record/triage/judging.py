"""Judges one bundle as `analyze` does, and makes its row."""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from service_record.diagnosis import diagnose
from service_record.diagnosis.causes import Causes, read_rules
from service_record.diagnosis.expectations import add_units
from service_record.diagnosis.now import latest_entry
from service_record.diagnosis.units import read_texts
from service_record.history import build_history
from service_record.history.build import doubted
from service_record.read.source import liveness_for, open_source
from service_record.triage.rows import BundleRow, HostFacts, Reference, row_of

_CAUSES: Final = "causes.yaml"


@cache
def known_rules() -> Causes:
    """Return the causes that are built in."""
    text = resources.files("service_record.diagnosis").joinpath(_CAUSES).read_text(encoding="utf-8")
    return Causes(read_rules(text, _CAUSES))


def judge_bundle(path: Path, reference: Reference) -> BundleRow:
    """Return the row of the host whose bundle is at this path. Raises SourceError, OSError."""
    source = open_source([str(path)])
    history = build_history(source.records, liveness_for(source))
    history = doubted(history, source.written, source.unfinished, source.damaged)
    explain = known_rules().explain
    found = diagnose(history, now=latest_entry(history), explain=explain)
    found = add_units(found, history, read_texts(source.unit_texts), explain=explain)
    return row_of(found, history, reference, HostFacts())
