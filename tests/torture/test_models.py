"""Lives of a host, drawn by hypothesis: some in each run, more in `make torture`."""

from hypothesis import settings

from tests.torture.models import RecordedHost, ReportedHost

TestRecordedHost = RecordedHost.TestCase
TestRecordedHost.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestReportedHost = ReportedHost.TestCase
TestReportedHost.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
