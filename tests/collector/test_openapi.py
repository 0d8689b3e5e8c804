"""The OpenAPI document is valid and complete, and describes the actual answers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service_record.collector.api.operation import ENROLLING, Operation
from service_record.collector.app import OPERATIONS, application, openapi_document
from service_record.collector.process import Collector
from service_record.collector.serving_settings import Rates
from service_record.http.address import is_host_name
from testing.machine import REPOSITORY
from tests.collector.routes import PARAMETER, list_routes
from tests.collector.serving import RunningCollector, make_collector_settings, run_collector

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 8
OF_MACHINES = ("/api/", "/healthz", "/readyz", "/metrics")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    rates = Rates(per_second=1e6, burst=1_000_000)
    with run_collector(
        make_collector_settings(tmp_path_factory.mktemp("openapi"), rates=rates, guesses=rates)
    ) as running:
        host = running.client("host", "web1")
        host.step("web1", "Disk setup", "failed", logs="no disk")
        yield running


def test_document_is_valid() -> None:
    validate(openapi_document())


def test_document_contains_exactly_the_api_routes(tmp_path: Path) -> None:
    with Collector(make_collector_settings(tmp_path)) as collector:
        served_routes = {
            (route.method, PARAMETER.sub(r"{\1}", route.template.rstrip("/")))
            for route in list_routes(application(collector))
            if route.template.startswith(OF_MACHINES)
        }

    assert served_routes == {(operation.method, operation.template) for operation in OPERATIONS}


def test_document_is_served_to_readers(server: RunningCollector) -> None:
    reply = server.client("reader").get("/api/v1/openapi.json")

    assert reply.json["openapi"] == "3.1.0"
    assert len(reply.json["paths"]) > 15
    assert server.client("host", "web1").get("/api/v1/openapi.json").status == 403


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_allowed_requests_get_documented_answers(server: RunningCollector, operation: Operation) -> None:
    schema = schemathesis.openapi.from_dict(openapi_document())
    kind = "enrolment" if operation.who is ENROLLING else "admin"
    client = server.client(kind)
    headers = {"Authorization": f"Bearer {client.token}"} if operation.who.kinds else {}
    statuses = set()

    @given(case=schema[operation.template][operation.method].as_strategy())
    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(case: "schemathesis.Case[Any]") -> None:
        response = case.call(base_url=server.url, headers=headers)
        case.validate_response(response, checks=CHECKS, headers=headers)
        statuses.add(response.status_code)
        if "host" in case.path_parameters:  # including a known one
            case.path_parameters["host"] = "web1"
            response = case.call(base_url=server.url, headers=headers)
            case.validate_response(response, checks=CHECKS, headers=headers)
            statuses.add(response.status_code)

    ask()
    assert statuses


def test_http_api_page_lists_every_call() -> None:
    page = (REPOSITORY / "docs/http-api.md").read_text().partition("\n## Calls\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([A-Z]+ /\S+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)

    assert sorted(rows) == sorted(
        (
            each.method + " " + re.sub(r":\w+}", "}", each.path),
            each.who.sentence.partition(", whose")[0],
            each.summary,
        )
        for each in OPERATIONS
        if not each.is_assisted
    )


def test_unknown_parameter_is_refused(server: RunningCollector) -> None:
    reader, host = server.client("reader"), server.client("host", "web1")

    reply = reader.get("/api/v1/hosts", verdcit="failed")

    assert reply.status == 400
    assert "verdcit" in reply.json["detail"]
    assert reader.get("/api/v1/hosts/web1", odd="1").status == 400
    assert host.get("/api/v1/hosts/web1/steps", name="Disk setup", odd="1").status == 201


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/v1/hosts", {"limit": "0"}),
        ("/api/v1/hosts", {"verdict": "odd"}),
        ("/api/v1/hosts", {"sort": "odd"}),
        ("/api/v1/statistics", {"by": "odd"}),
        ("/api/v1/audit", {"limit": "1001"}),
    ],
)
def test_document_has_the_limits_of_parameters(
    server: RunningCollector, path: str, query: dict[str, str]
) -> None:
    parameters = openapi_document()["paths"][path]["get"]["parameters"]
    ((name, value),) = query.items()
    (schema,) = [one["schema"] for one in parameters if one["name"] == name]
    one_value = schema.get("items", schema)

    given: object = int(value) if one_value["type"] == "integer" else value
    assert not Draft202012Validator(one_value).is_valid(given)
    assert server.client("admin").get(path, **query).status == 400


def test_document_has_the_pattern_of_host_names() -> None:
    (host,) = [
        one["schema"]
        for one in openapi_document()["paths"]["/api/v1/hosts/{host}/steps"]["post"]["parameters"]
        if one["name"] == "host"
    ]
    for name in ("web1", "Web1.example.com", "a b", "-web", "web/1", "", "x" * 254):
        assert Draft202012Validator(host).is_valid(name) == is_host_name(name), name


_ID = "01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    ("call", "good", "bad"),
    [
        ("PUT /api/v1/hosts/{host}", {"group": "dc1/rack2", "release": "9.6"}, {"group": "dc1//rack2"}),
        ("PUT /api/v1/hosts/{host}", {}, {"release": "x" * 256}),
        ("PUT /api/v1/hosts/{host}", {"id": _ID, "cluster_id": _ID}, {"id": "1", "cluster_id": _ID}),
        ("PUT /api/v1/hosts/{host}", {"role": ""}, {"id": _ID, "cluster_id": _ID, "role": "odd"}),
        ("PUT /api/v1/hosts/{host}", {"status": ""}, {"id": _ID, "cluster_id": _ID, "status": "odd"}),
        ("POST /api/v1/hosts/{host}/builds", {"build": "b1"}, {"build": "x" * 256}),
        ("POST /api/v1/hosts/{host}/steps", {"name": "Disk setup"}, {"name": " "}),
        ("POST /api/update", {"name": "web1", "status": "installing"}, {"name": "a b", "status": "x"}),
        ("POST /api/v1/tokens", {"kind": "reader", "expires": "1h 30m"}, {"kind": "odd"}),
        ("POST /api/v1/tokens", {"kind": "admin", "expires": "never"}, {"kind": "admin", "expires": "soon"}),
        ("POST /api/v1/tokens", {"kind": "host", "scope": "web1"}, {"kind": "host"}),
        ("POST /api/v1/tokens", {"kind": "boot", "scope": "web1"}, {"kind": "boot", "scope": "a b"}),
        (
            "POST /api/v1/tokens",
            {"kind": "group", "scope": "dc1/rack2"},
            {"kind": "group", "scope": "dc1//rack2"},
        ),
        ("POST /api/v1/tokens", {"kind": "reader", "scope": ""}, {"kind": "reader", "scope": "dc 1"}),
        (
            "POST /api/v1/tokens",
            {"kind": "enrolment", "scope": "group:dc1"},
            {"kind": "enrolment", "scope": "dc1"},
        ),
        ("POST /api/v1/tokens", {"kind": "admin"}, {"kind": "admin", "scope": "dc1"}),
        (
            "POST /api/v1/mutes",
            {"kind": "muted", "scope": "host", "subject": "web1", "duration": "4h"},
            {"kind": "muted", "scope": "host", "subject": "a b", "duration": "4h"},
        ),
        (
            "POST /api/v1/mutes",
            {"kind": "muted", "scope": "cause", "subject": "0123456789abcdef", "duration": "4h"},
            {"kind": "muted", "scope": "cause", "subject": "web1", "duration": "4h"},
        ),
        (
            "POST /api/v1/mutes",
            {"kind": "muted", "scope": "group", "subject": "dc1", "duration": "4h"},
            {"kind": "muted", "scope": "group", "subject": "dc1//x", "duration": "4h"},
        ),
        (
            "POST /api/v1/mutes",
            {"kind": "muted", "scope": "group", "subject": "dc1", "duration": "4h"},
            {"kind": "muted", "scope": "group", "subject": "dc1", "duration": "later"},
        ),
        (
            "POST /api/v1/mutes",
            {"kind": "muted", "scope": "host", "subject": "web1", "duration": "1.5h"},
            {"kind": "muted", "scope": "host", "subject": "", "duration": "4h"},
        ),
        ("PUT /api/v1/clusters/{cluster}", {"control_planes": 3, "workers": 0}, {"control_planes": 0}),
        ("PUT /api/v1/clusters/{cluster}", {"name": "prod"}, {"workers": 10_001}),
    ],
)
def test_document_has_the_limits_of_bodies(
    server: RunningCollector, call: str, good: dict[str, object], bad: dict[str, object]
) -> None:
    method, _, template = call.partition(" ")
    document = openapi_document()
    content = document["paths"][template][method.lower()]["requestBody"]["content"]
    schema = {**content["application/json"]["schema"], "components": document["components"]}
    path = template.replace("{host}", "web1").replace("{cluster}", _ID)
    for body, is_valid in ((good, True), (bad, False)):
        reply = server.client("admin").ask(method, path, data=body)
        assert Draft202012Validator(schema).is_valid(body) == is_valid, body
        assert (reply.status < 300) == is_valid, reply.body
