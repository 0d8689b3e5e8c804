"""Lives of a host, drawn by hypothesis: some in each run, more in `make torture`."""

from hypothesis import settings

from tests.torture.models import RecordedHost

TestRecordedHost = RecordedHost.TestCase
TestRecordedHost.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
