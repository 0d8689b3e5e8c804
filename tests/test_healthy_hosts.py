"""No cause is named where there is none: not of a healthy host, and not of a service that waited in vain."""

import pytest

from service_record.diagnosis import Verdict
from service_record.diagnosis.causes import built_in_rules
from tests.cause_cases import cause_cases
from tests.healthy_hosts import Host, healthy_hosts, waited

HOSTS = healthy_hosts()
CASES = list(cause_cases())
RULES = built_in_rules()


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_of_a_healthy_host_no_cause_is_named(host: Host) -> None:
    found = host.diagnosis()
    assert found.verdict in {Verdict.RUNNING, Verdict.SUCCEEDED}
    assert found.host is None, found.host
    assert found.root is None


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
@pytest.mark.parametrize(
    "message",
    [
        "Error: error while checking pod status: timed out waiting for the condition",
        "Error: the moon is in the wrong phase",
        "exit status 1",
        "",
    ],
    ids=["waited", "unknown", "bare", "silent"],
)
def test_of_a_service_that_waited_in_vain_no_harmless_line_is_the_cause(host: Host, message: str) -> None:
    root = host.diagnosis(waited(message)).root
    assert root is not None
    assert root.service == "waiting"
    assert root.cause is None or not root.cause.is_cause, root.cause


@pytest.mark.slow
def test_every_cause_is_told_among_the_lines_of_a_healthy_host() -> None:
    logs = {path: text for path, text in HOSTS[0].files.items() if path.endswith(".log")}
    causes = ((case.rule, case.told(RULES, logs)) for case in CASES if not case.is_near_miss)
    wrong = [
        f"{rule}: {cause and cause.name}" for rule, cause in causes if cause is None or cause.name != rule
    ]
    assert not wrong, "\n".join(wrong)
