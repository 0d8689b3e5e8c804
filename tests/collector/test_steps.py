"""Steps as hosts report them."""

from tests.collector.serving import Served


def test_a_step_that_is_acknowledged_is_in_the_database(server: Served) -> None:
    host = server.client("host", "web1")

    reply = host.step("web1", "Disk setup", "init", percentage=10)

    assert (reply.status, reply.json) == (201, {"id": 1, "host": "web1", "build": 1})


def test_a_token_of_one_host_reports_for_no_other(server: Served) -> None:
    host = server.client("host", "web1")

    assert host.step("web2", "Disk setup").status == 403
