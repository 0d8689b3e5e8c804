"""Lives of a collector, drawn by hypothesis: some in each run, more in `make torture`."""

from hypothesis import HealthCheck, settings

from tests.torture.collected import CollectedHosts

TestCollectedHosts = CollectedHosts.TestCase
TestCollectedHosts.settings = settings(
    max_examples=5, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
