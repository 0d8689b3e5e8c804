"""Build the OpenAPI document from the table of operations: https://spec.openapis.org/oas/v3.1.0."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from service_record.collector.api.answering import AgentProblem, Problem
from service_record.collector.api.operation import ANYBODY, TEXT, AgentError, Operation
from service_record.http.address import HOST_PATTERN
from service_record.version import __version__

_ALL: Final = (400, 401, 403, 429, 503)
"""Error statuses of all operations that need a token."""
_WITH_BODY: Final = (408, 413)
_BY_HANDLERS: Final = (404, 409)
"""Error statuses that the assisted-service's handlers return, in the form `AgentError`."""
_REFERENCE: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"{(\w+)}")
_UUIDS: Final = {"cluster_id", "infra_env_id", "host_id"}
_NUMBERS: Final = {"n", "token", "bundle"}
HOST_NAME: Final = {"type": "string", "pattern": f"^(?:{HOST_PATTERN})$", "examples": ["web1.example.com"]}
_FORM: Final = "application/x-www-form-urlencoded"


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    types = [Problem, AgentError, AgentProblem, *_types(operations)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    of_type = dict(zip(types, schemas, strict=True))
    for type_ in types:
        # Rules between fields, which no annotation of one field can express.
        components[type_.__name__] |= getattr(type_, "json_rules", {})
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.template, {})[operation.method.lower()] = _operation(operation, of_type)
    schema = {
        "openapi": "3.1.0",
        "info": {
            "title": "service-record collector",
            "version": __version__,
            "description": "Takes what hosts say of their provisioning, and tells how far they came.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "agent": {"type": "apiKey", "in": "header", "name": "X-Secret-Key"},
            },
        },
    }
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))  # converts tuples to lists
    return plain


def _types(operations: Sequence[Operation]) -> list[Any]:
    types = [
        what
        for operation in operations
        for several in (*operation.answers.values(), operation.body)
        for what in _each(several)
    ]
    return list(dict.fromkeys(what for what in types if isinstance(what, type)))


def _each(what: Any) -> tuple[Any, ...]:
    return what if isinstance(what, tuple) else (what,)


def _operation(operation: Operation, of_type: Mapping[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _id(operation),
        "summary": operation.summary,
        "description": f"For {operation.who.sentence}.",
        "parameters": _parameters(operation),
        "responses": _responses(operation, of_type),
        "security": [] if not operation.who.kinds else [{"token": []}, {"agent": []}],
    }
    if operation.body is not None:
        described["requestBody"] = {"content": _body(operation, of_type)}
    return described


def _id(operation: Operation) -> str:
    words = re.findall(r"[a-z0-9]+", operation.template)
    return "_".join([operation.method.lower(), *words])


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in _PARAMETER.findall(operation.template)
    ]
    return in_path + [
        {"name": name, "in": "query", "schema": dict(schema)} for name, schema in operation.query.items()
    ]


def _path_schema(name: str) -> dict[str, Any]:
    if name in _UUIDS:
        return {"type": "string", "format": "uuid"}
    if name in _NUMBERS:
        return {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}
    if name == "host":
        return dict(HOST_NAME)
    return {"type": "string", "minLength": 1}


def _body(operation: Operation, of_type: Mapping[Any, Any]) -> dict[str, Any]:
    if operation.body == TEXT:
        return {TEXT: {"schema": {"type": "string"}}}
    if isinstance(operation.body, str):
        file = {"type": "object", "properties": {"upfile": {"type": "string", "format": "binary"}}}
        return {operation.body: {"schema": file}}
    content = {"schema": _schema(operation.body, of_type)}
    kinds = ("application/json", _FORM) if operation.is_form else ("application/json",)
    return dict.fromkeys(kinds, content)


def _schema(what: Any, of_type: Mapping[Any, Any]) -> Any:
    return of_type[what] if isinstance(what, type) else dict(what)


def _responses(operation: Operation, of_type: Mapping[Any, Any]) -> dict[str, Any]:
    responses = {str(status): _answer(status, what, of_type) for status, what in operation.answers.items()}
    if operation.who is ANYBODY:
        return responses
    statuses = {*_ALL, *operation.refusals, *(_WITH_BODY if operation.body is not None else ())}
    media = "application/problem+json" if operation.problem == "Problem" else "application/json"
    for status in sorted(statuses):
        name = operation.problem
        if name == AgentError.__name__ and status not in _BY_HANDLERS:
            name = AgentProblem.__name__
        schema = {"$ref": _REFERENCE.format(name=name)}
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {media: {"schema": schema}},
        }
    return responses


def _answer(status: int, what: Any, of_type: Mapping[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    content = {}
    for one in _each(what):
        if isinstance(one, str):
            content[one] = {"schema": {"type": "string"}}
        elif one is not None:
            content["application/json"] = {"schema": _schema(one, of_type)}
    return described | ({"content": content} if content else {})
