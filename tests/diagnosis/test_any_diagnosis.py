"""Whatever stands in records, they are judged, and the judgement can be shown in every form."""

from datetime import timedelta
from io import BytesIO

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from service_record.diagnosis import diagnose
from service_record.diagnosis.budget import Budgets
from service_record.diagnosis.causes import Causes
from service_record.display.analysis_document import analysis_document, analysis_lines
from service_record.display.machine import encode_document, format_json
from service_record.display.text import View, cell_len, render_lines
from service_record.display.verdict_page import analysis
from service_record.history import build_history
from service_record.history.build import Now
from service_record.history.outcome import Outcome
from service_record.record.entry import Entry
from service_record.record.layout import read_entries
from service_record.record.visible import visible
from tests.builders import BOOT_ID, START
from tests.diagnosis.test_causes import BUILT_IN
from tests.strategies import RECORD_BYTES, entries

RECORDS = st.dictionaries(
    st.sampled_from(["a", "b", "\u202ec"]), st.lists(entries(), max_size=12), max_size=3
)
NOW = st.none() | st.just(Now(time=START + timedelta(hours=2), boot_id=BOOT_ID, uptime=7200.0))
EXPLAIN = Causes(BUILT_IN).explain


@settings(max_examples=60, deadline=None)
@given(RECORDS, RECORDS, NOW)
def test_any_entries_are_judged_and_shown(
    records: dict[str, list[Entry]], good: dict[str, list[Entry]], now: Now | None
) -> None:
    history = build_history(records.items())
    budgets = Budgets(baseline=build_history(good.items()))
    found = diagnose(history, now=now, budgets=budgets, explain=EXPLAIN)
    outcomes = [service.outcome for service in history.services if service.runs]
    assert (found is None) is (not outcomes)
    if found is None:
        return
    if set(outcomes) == {Outcome.SUCCESS}:
        assert not found.verdict.is_bad
    if Outcome.RUNNING not in outcomes and set(outcomes) != {Outcome.SUCCESS}:
        assert found.verdict.is_bad
    for whole in (False, True):
        page = "".join(render_lines(analysis(found, history, "here", View(), whole=whole), color=False))
        lines = page.split("\n")
        assert [visible(line) for line in lines] == lines
        too_wide = [line for line in lines if cell_len(line) > 80 and "journalctl" not in line]
        assert not too_wide, too_wide
    assert orjson.loads(format_json(analysis_document(found, "here")))["verdict"] == found.verdict
    assert all(orjson.loads(encode_document(line)) for line in analysis_lines(found, "here"))


@settings(max_examples=40, deadline=None)
@given(RECORD_BYTES)
def test_any_bytes_are_judged(content: bytes) -> None:
    history = build_history([("a", read_entries(BytesIO(content)))])
    found = diagnose(history, explain=EXPLAIN)
    assert (found is None) is (not history.services[0].runs)
