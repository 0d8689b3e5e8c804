"""The page of `analyze` as a text that goes with a bundle."""

from datetime import datetime

from service_record.cli import told
from service_record.cli.judging import judging
from service_record.cli.opening import history_of
from service_record.cli.present import now_for
from service_record.cli.units import units_for
from service_record.diagnosis.expectations import add_units
from service_record.display.analysis import analysis_text
from service_record.display.text import visible
from service_record.source import SourceError, open_source


def verdict_page(at: datetime) -> str:
    """What is wrong with this host, or why nobody can tell; always a text."""
    try:
        source = open_source()
        history = history_of(source)
        made = judging(None, None, ())
        units = units_for(source, (), history, None, ())
        found = made.diagnosis(history, now_for(history, source))
        diagnosis = add_units(found, history, units, explain=made.causes.explain)
    except SourceError as error:
        return f"{visible(str(error))}\n"
    except OSError as error:
        return f"{told(error)}\n"
    if diagnosis is None:
        return f"no run to judge in {visible(source.name)}\n"
    return analysis_text(diagnosis, history, source.name, at)
