"""Some simulated hosts in each test run; `make torture` runs more."""

from hypothesis import settings

from tests.torture.models import RecordedHost

TestRecordedHost = RecordedHost.TestCase
TestRecordedHost.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
