"""No cause is named where there is none: not of a healthy host, and not of a service that waited in vain."""

from itertools import product

import pytest

from service_record.diagnosis import Verdict
from service_record.diagnosis.causes import built_in_causes
from tests.builders import require, timestamp
from tests.cause_cases import cause_cases
from tests.faults import Faults
from tests.healthy_hosts import TOP, healthy_hosts, waited

HOSTS = healthy_hosts()
CAUSES = built_in_causes()


def test_healthy_host_has_no_cause() -> None:
    with Faults() as faults:
        for host in HOSTS:
            with faults.case(host.name):
                found = host.diagnosis(CAUSES)
                assert found.verdict in {Verdict.RUNNING, Verdict.SUCCEEDED}
                assert found.host is None
                assert found.root is None


MESSAGES = (
    "Error: error while checking pod status: timed out waiting for the condition",
    "Error: the moon is in the wrong phase",
    "exit status 1",
    "",
)


@pytest.mark.slow
def test_harmless_line_does_not_explain_a_timeout() -> None:
    with Faults() as faults:
        for host, message in product(HOSTS, MESSAGES):
            with faults.case(f"{host.name}, {message!r}"):
                root = require(host.diagnosis(CAUSES, waited(message)).root)
                assert root.service == "waiting"
                assert root.cause is None or not root.cause.is_cause


@pytest.mark.parametrize(("tries", "is_cause"), [(1, False), (3, True)])
def test_retried_look_up_is_not_a_certain_cause(tries: int, is_cause: bool) -> None:
    failing = "waiting[6999]: lookup quay.io on 192.0.2.53:53: no such host"
    lines = [(500 + 5 * n, failing) for n in range(tries)] + [(590, "waiting[6999]: waiting for pods")]
    journal = "".join(f"{timestamp(time)} host {text}\n" for time, text in lines)
    logs = {f"{TOP}journals/journal.log": journal}
    cause = require(require(HOSTS[0].diagnosis(CAUSES, waited(), logs=logs).root).cause)
    assert (cause.name, cause.is_cause) == ("dns-no-such-name", is_cause)


@pytest.mark.slow
def test_every_cause_is_found_on_a_healthy_host() -> None:
    # Lines about mounting a file system later speak against damage of that file system.
    logs = {
        path: "".join(line for line in text.splitlines(True) if "mount" not in line)
        for path, text in HOSTS[0].files.items()
        if path.endswith(".log")
    }
    with Faults() as faults:
        for case in cause_cases():
            if not case.is_near_miss:
                with faults.case(case.rule):
                    assert require(case.named_cause(CAUSES, logs)).name == case.rule
