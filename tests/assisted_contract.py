"""Whether requests fit the assisted-service's OpenAPI file (Swagger 2.0), where this machine has it.

`ASSISTED_SERVICE_OPENAPI` names it; otherwise it is looked for in a `reference` folder beside this checkout.
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
from tests.assisted_rules import Asked, form_parts

_CHECKOUT: Final = Path(__file__).resolve().parents[1]
_OF_HTTP: Final = {
    *("host", "user-agent", "accept", "accept-encoding", "connection"),
    *("content-length", "content-type", "expect", "x-request-id"),
}
"""Headers that the file need not name: HTTP's own, and the one that every call may carry."""


def openapi_file() -> Path | None:
    """Return the path of the file; None when it cannot be had."""
    if named := os.environ.get("ASSISTED_SERVICE_OPENAPI"):
        return Path(named)
    return next(iter(sorted(_CHECKOUT.parent.glob("*/reference/*assisted-service-swagger.yaml"))), None)


@cache
def load(path: Path) -> dict[str, Any]:
    """The document, read once for all tests."""
    document = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert isinstance(document, dict)
    return document


def enhanced(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as the enhancement would have it: with two more stages and a type of logs."""
    changed = copy.deepcopy(dict(document))
    changed["definitions"]["host-stage"]["enum"] += [LOCAL_IGNITION, CONTROL_PLANE_IGNITION]
    for row in changed["paths"]["/v2/clusters/{cluster_id}/logs"]["post"]["parameters"]:
        if row["name"] == "logs_type":
            row["enum"].append("host_boot")
    return changed


def assert_contract_kept(requests: Iterable[Asked], *, is_enhanced: bool = True) -> None:
    """Every request that came whole fits the file, where that can be had."""
    path = openapi_file()
    if path is None:
        return
    document = enhanced(load(path)) if is_enhanced else load(path)
    for asked in requests:
        if int(asked.headers.get("content-length", 0)) == len(asked.body):
            assert list(violations(document, asked)) == [], f"{asked.method} {asked.target}"


def violations(document: Mapping[str, Any], asked: Asked) -> Iterator[str]:
    """In what a request does not fit: its path, method, parameters, headers, key or body."""
    found = _operation(document, asked)
    if found is None:
        yield f"no operation {asked.method} {asked.path}"
        return
    operation, in_path, parameters = found
    yield from _of_kind(parameters, "path", in_path)
    yield from _of_kind(parameters, "query", dict(parse_qsl(urlsplit(asked.target).query)))
    schemes = {name for row in operation.get("security", document["security"]) for name in row}
    keys = {
        definition["name"].lower()
        for name, definition in document["securityDefinitions"].items()
        if name in schemes and definition["in"] == "header"
    }
    sent = {name: value for name, value in asked.headers.items() if name not in _OF_HTTP | keys}
    yield from _of_kind(parameters, "header", sent)
    yield from _body(document, operation, parameters, asked)


def _operation(
    document: Mapping[str, Any], asked: Asked
) -> tuple[Mapping[str, Any], dict[str, str], list[dict[str, Any]]] | None:
    """The operation, what the request has in place of its path's parameters, and what parameters it takes."""
    if not asked.path.startswith(document["basePath"] + "/"):
        return None
    parts = asked.path.removeprefix(document["basePath"]).split("/")
    for template, item in document["paths"].items():
        names = template.split("/")
        fits = len(names) == len(parts) and all(
            name == part or name.startswith("{") for name, part in zip(names, parts, strict=True)
        )
        if fits and asked.method.lower() in item:
            operation = item[asked.method.lower()]
            in_path = {
                name.strip("{}"): part
                for name, part in zip(names, parts, strict=True)
                if name.startswith("{")
            }
            return operation, in_path, [*item.get("parameters", []), *operation.get("parameters", [])]
    return None


def _of_kind(parameters: list[dict[str, Any]], kind: str, sent: Mapping[str, str]) -> Iterator[str]:
    known = {_name(row): row for row in parameters if row["in"] == kind}
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
        yield from (f"{kind}: {name}: {fault}" for fault in _faults(schema, sent[name]))


def _name(parameter: Mapping[str, Any]) -> str:
    name = str(parameter["name"])
    return name.lower() if parameter["in"] == "header" else name


def _body(
    document: Mapping[str, Any], operation: Mapping[str, Any], parameters: list[dict[str, Any]], asked: Asked
) -> Iterator[str]:
    consumes = operation.get("consumes", document["consumes"])
    content_type = asked.headers.get("content-type", "").partition(";")[0]
    if (asked.body or content_type) and content_type not in consumes:
        yield f"body: Content-Type {content_type!r} is not one of {consumes}"
        return
    files = {row["name"]: row for row in parameters if row["in"] == "formData"}
    if files:
        parts = form_parts(asked) or {}
        yield from (f"form: {name} is unknown" for name in parts.keys() - files.keys())
        # The file says that it need not be there; the service dies of a form without it.
        yield from (f"form: {name} is missing" for name in files.keys() - parts.keys())
        yield from (
            f"form: {name} is too long"
            for name in parts.keys() & files.keys()
            if len(parts[name]) > files[name]["maxLength"]
        )
    for row in parameters:
        if row["in"] == "body":
            yield from _json_body(document, row, asked.body)


def _json_body(document: Mapping[str, Any], row: Mapping[str, Any], body: bytes) -> Iterator[str]:
    if not body:
        yield from (["body: is missing"] if row.get("required") else [])
        return
    value = json.loads(body)
    schema = {**row["schema"], "definitions": document["definitions"]}
    yield from (f"body: {fault}" for fault in _faults(schema, value))
    # The service refuses fields that it does not know, which the file does not say.
    name = row["schema"].get("$ref", "").rpartition("/")[2]
    known = document["definitions"].get(name, {}).get("properties", {})
    yield from (f"body: {field} is unknown" for field in value.keys() - known.keys())


def _faults(schema: dict[Any, Any], value: object) -> Iterator[str]:
    checker = jsonschema.Draft4Validator(schema, format_checker=_FORMATS)
    yield from (fault.message for fault in checker.iter_errors(value))


_FORMATS: Final = jsonschema.FormatChecker()


@_FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None
