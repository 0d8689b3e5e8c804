"""Validate requests against the assisted-service's OpenAPI document (Swagger 2.0), if the file is available.

Its path is the value of `ASSISTED_SERVICE_OPENAPI`, or `*/reference/*assisted-service-swagger.yaml` in the
parent folder of this checkout.
"""

import copy
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import jsonschema
import yaml

from tests.assisted_installation import CONTROL_PLANE_IGNITION, LOCAL_IGNITION
from tests.assisted_rules import ServiceRequest, parse_form

_CHECKOUT: Final = Path(__file__).resolve().parents[1]
_HTTP_HEADERS: Final = {
    *("host", "user-agent", "accept", "accept-encoding", "connection"),
    *("content-length", "content-type", "expect", "x-request-id"),
}
"""Headers that need no declaration: those of HTTP itself, and `x-request-id`, which any request may have."""


def find_openapi_file() -> Path | None:
    """Return the path of the OpenAPI document, or None if there is none."""
    if named := os.environ.get("ASSISTED_SERVICE_OPENAPI"):
        return Path(named)
    return next(iter(sorted(_CHECKOUT.parent.glob("*/reference/*assisted-service-swagger.yaml"))), None)


@cache
def load(path: Path) -> dict[str, Any]:
    """Parse the document. The result is cached, because parsing takes seconds."""
    document = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert isinstance(document, dict)
    return document


def add_proposed_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with the proposed enhancement: two more stages, and the `host_boot` type of logs."""
    changed = copy.deepcopy(dict(document))
    changed["definitions"]["host-stage"]["enum"] += [LOCAL_IGNITION, CONTROL_PLANE_IGNITION]
    for row in changed["paths"]["/v2/clusters/{cluster_id}/logs"]["post"]["parameters"]:
        if row["name"] == "logs_type":
            row["enum"].append("host_boot")
    return changed


def assert_requests_match_openapi(
    requests: Iterable[ServiceRequest], *, has_proposed_values: bool = True
) -> None:
    """Check every completely received request. Does nothing without an OpenAPI document."""
    path = find_openapi_file()
    if path is None:
        return
    document = add_proposed_values(load(path)) if has_proposed_values else load(path)
    for request in requests:
        if int(request.headers.get("content-length", 0)) == len(request.body):
            assert list(find_violations(document, request)) == [], f"{request.method} {request.target}"


def find_violations(document: Mapping[str, Any], request: ServiceRequest) -> Iterator[str]:
    """Yield each violation: in the path, method, parameters, headers or body of a request."""
    found = _find_operation(document, request)
    if found is None:
        yield f"no operation {request.method} {request.path}"
        return
    operation, in_path, parameters = found
    yield from _check_parameters(parameters, "path", in_path)
    yield from _check_parameters(parameters, "query", dict(parse_qsl(urlsplit(request.target).query)))
    schemes = {name for row in operation.get("security", document["security"]) for name in row}
    keys = {
        definition["name"].lower()
        for name, definition in document["securityDefinitions"].items()
        if name in schemes and definition["in"] == "header"
    }
    sent = {name: value for name, value in request.headers.items() if name not in _HTTP_HEADERS | keys}
    yield from _check_parameters(parameters, "header", sent)
    yield from _check_body(document, operation, parameters, request)


def _find_operation(
    document: Mapping[str, Any], request: ServiceRequest
) -> tuple[Mapping[str, Any], dict[str, str], list[dict[str, Any]]] | None:
    """Return the operation of a request, its path parameters and values, and the declared parameters."""
    if not request.path.startswith(document["basePath"] + "/"):
        return None
    parts = request.path.removeprefix(document["basePath"]).split("/")
    for template, item in document["paths"].items():
        names = template.split("/")
        fits = len(names) == len(parts) and all(
            name == part or name.startswith("{") for name, part in zip(names, parts, strict=True)
        )
        if fits and request.method.lower() in item:
            operation = item[request.method.lower()]
            in_path = {
                name.strip("{}"): part
                for name, part in zip(names, parts, strict=True)
                if name.startswith("{")
            }
            return operation, in_path, [*item.get("parameters", []), *operation.get("parameters", [])]
    return None


def _check_parameters(parameters: list[dict[str, Any]], kind: str, sent: Mapping[str, str]) -> Iterator[str]:
    known = {_get_parameter_name(row): row for row in parameters if row["in"] == kind}
    yield from (f"{kind}: {name} is unknown" for name in sent.keys() - known.keys())
    yield from (
        f"{kind}: {name} is missing"
        for name, row in known.items()
        if row.get("required") and name not in sent
    )
    for name in sent.keys() & known.keys():
        schema: dict[Any, Any] = {
            key: known[name][key] for key in ("type", "format", "enum", "maxLength") if key in known[name]
        }
        yield from (f"{kind}: {name}: {fault}" for fault in _validate(schema, sent[name]))


def _get_parameter_name(parameter: Mapping[str, Any]) -> str:
    name = str(parameter["name"])
    return name.lower() if parameter["in"] == "header" else name


def _check_body(
    document: Mapping[str, Any],
    operation: Mapping[str, Any],
    parameters: list[dict[str, Any]],
    request: ServiceRequest,
) -> Iterator[str]:
    consumes = operation.get("consumes", document["consumes"])
    content_type = request.headers.get("content-type", "").partition(";")[0]
    if (request.body or content_type) and content_type not in consumes:
        yield f"body: Content-Type {content_type!r} is not one of {consumes}"
        return
    files = {row["name"]: row for row in parameters if row["in"] == "formData"}
    if files:
        parts = parse_form(request) or {}
        yield from (f"form: {name} is unknown" for name in parts.keys() - files.keys())
        # Optional in the document, but the service's handler panics if a form has no file.
        yield from (f"form: {name} is missing" for name in files.keys() - parts.keys())
        yield from (
            f"form: {name} is too long"
            for name in parts.keys() & files.keys()
            if len(parts[name]) > files[name]["maxLength"]
        )
    for row in parameters:
        if row["in"] == "body":
            yield from _check_json_body(document, row, request.body)


def _check_json_body(document: Mapping[str, Any], row: Mapping[str, Any], body: bytes) -> Iterator[str]:
    if not body:
        yield from (["body: is missing"] if row.get("required") else [])
        return
    value = json.loads(body)
    schema = {**row["schema"], "definitions": document["definitions"]}
    yield from (f"body: {fault}" for fault in _validate(schema, value))
    # The service rejects unknown fields, although the document does not forbid them.
    name = row["schema"].get("$ref", "").rpartition("/")[2]
    known = document["definitions"].get(name, {}).get("properties", {})
    yield from (f"body: {field} is unknown" for field in value.keys() - known.keys())


def _validate(schema: dict[Any, Any], value: object) -> Iterator[str]:
    checker = jsonschema.Draft4Validator(schema, format_checker=_FORMATS)
    yield from (fault.message for fault in checker.iter_errors(value))


_FORMATS: Final = jsonschema.FormatChecker()


@_FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None
