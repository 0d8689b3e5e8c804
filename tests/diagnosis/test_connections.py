"""The context of a failure: the times and the own lines of its run."""

from datetime import timedelta

from service_record.diagnosis.connections import make_failure_context
from service_record.diagnosis.diagnose import diagnose, make_trouble_facts
from service_record.diagnosis.evidence.host_evidence import Evidence
from service_record.diagnosis.evidence.log_lines import JOURNAL, Era, LogLine, LogStream, log_line
from service_record.history import build_history
from service_record.history.build import with_anomalies
from service_record.history.outcome import order
from service_record.history.results import Liveness
from service_record.record.entry import Phase, Result
from tests.builders import START, require, timestamp, upstream_entry

LOCAL_SECONDS = -5 * 3600


def own_line(seconds: float) -> LogLine:
    """Return a line that the service logged so many seconds after its true start."""
    text = f"{timestamp(seconds)} host job[7]: cannot reach 192.0.2.7:6443"
    return log_line(LogStream("journal.log", JOURNAL), 1, text.encode(), Era())


def test_context_has_true_times_and_the_lines_of_the_run() -> None:
    # The record has local time, as upstream's shim writes it, although its times are labelled UTC.
    local = [
        upstream_entry(Phase.SERVICE_START, LOCAL_SECONDS),
        upstream_entry(Phase.SERVICE_END, LOCAL_SECONDS + 10, result=Result.FAILURE),
    ]
    written = order(local[-1].time) - LOCAL_SECONDS
    history = with_anomalies(build_history([("job", local)], Liveness()), {"job": written}, ())
    trouble = require(require(diagnose(history)).root)
    before, during = own_line(LOCAL_SECONDS + 5), own_line(5)

    context = make_failure_context(make_trouble_facts(trouble), Evidence(own={"job": (before, during)}))

    assert (context.started, context.ended) == (START, START + timedelta(seconds=10))
    assert context.lines == (during,)
