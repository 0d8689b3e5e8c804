"""Build the OpenAPI document from the operations and the types of their handlers: https://spec.openapis.org/oas/v3.1.0."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from service_record.collector.api.answering import PROBLEM, AgentError, AgentProblem, Problem
from service_record.collector.api.operation import ANYBODY, TEXT, Handler, Operation, Schema
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
        if (rules := getattr(type_, "json_rules", None)) is not None:
            components[type_.__name__] |= rules
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


def read_answers(handler: Handler) -> dict[int, dict[str, Any]]:
    """Return the answers that a handler's return type declares: status -> media type -> document's type."""
    declared = handler.__annotations__["return"]
    answers: dict[int, dict[str, Any]] = {}
    for kind in get_args(declared) if get_origin(declared) in {Union, UnionType} else (declared,):
        response = get_origin(kind) or kind
        contents = answers.setdefault(int(response.status), {})
        if response.media_type is not None:
            contents[response.media_type] = next(iter(get_args(kind)), str)
    return answers


def read_parameters(query: type[msgspec.Struct] | None) -> dict[str, Schema]:
    """Return the schema of each parameter of a query."""
    if query is None:
        return {}
    (_, parts) = msgspec.json.schema_components([query], ref_template="{name}")

    def inlined(schema: Schema) -> Schema:
        if "$ref" in schema:  # an enumeration
            return {"type": "string", "enum": parts[schema["$ref"]]["enum"]}
        if "items" in schema:
            return {"type": "array", "items": inlined(schema["items"])}
        return {"type": "string", **schema} if "enum" in schema else schema

    properties: dict[str, Schema] = parts[query.__name__]["properties"]
    return {name: inlined(schema) for name, schema in properties.items()}


def _types(operations: Sequence[Operation]) -> list[Any]:
    types = [
        *(operation.documented_body for operation in operations),
        *(
            document
            for operation in operations
            for contents in read_answers(operation.handler).values()
            for document in contents.values()
        ),
    ]
    return list(dict.fromkeys(kind for kind in types if kind is not None and not isinstance(kind, str)))


def _operation(operation: Operation, of_type: Mapping[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": "_".join([operation.method.lower(), *re.findall(r"[a-z0-9]+", operation.template)]),
        "summary": operation.summary,
        "description": f"For {operation.who.sentence}.",
        "parameters": _parameters(operation),
        "responses": _responses(operation, of_type),
        "security": [] if not operation.who.kinds else [{"token": []}, {"agent": []}],
    }
    if operation.documented_body is not None:
        described["requestBody"] = {"content": _body(operation, of_type)}
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in _PARAMETER.findall(operation.template)
    ]
    return in_path + [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in (read_parameters(operation.query) or operation.parameters).items()
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
    body = operation.documented_body
    if body == TEXT:
        return {TEXT: {"schema": {"type": "string"}}}
    if isinstance(body, str):
        file = {"type": "object", "properties": {"upfile": {"type": "string", "format": "binary"}}}
        return {body: {"schema": file}}
    content = {"schema": of_type[body]}
    is_form = operation.is_form or operation.fields is not None
    kinds = ("application/json", _FORM) if is_form else ("application/json",)
    return dict.fromkeys(kinds, content)


def _responses(operation: Operation, of_type: Mapping[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, contents in read_answers(operation.handler).items():
        responses[str(status)] = {"description": HTTPStatus(status).phrase}
        if contents:
            responses[str(status)]["content"] = {
                media_type: {"schema": of_type[document]} for media_type, document in contents.items()
            }
    if operation.who is ANYBODY:
        return responses
    statuses = {*_ALL, *operation.refusals, *(_WITH_BODY if operation.documented_body is not None else ())}
    media = "application/json" if operation.is_assisted else PROBLEM
    for status in sorted(statuses):
        name = Problem.__name__
        if operation.is_assisted:
            name = (AgentError if status in _BY_HANDLERS else AgentProblem).__name__
        schema = {"$ref": _REFERENCE.format(name=name)}
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {media: {"schema": schema}},
        }
    return responses
