"""The JSON schemas of docs/schemas, made strict: a field that no schema has is an error."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from service_record.http.collector_answers import HostDetail

SCHEMAS: Final = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def check(answer: object, name: str, part: str = "") -> None:
    """Raise ValidationError unless an answer is as `name` describes it, or as the definition `part` does."""
    place = f"{name}.schema.json{part and f'#/$defs/{part}'}"
    Draft202012Validator({"$ref": place}, registry=_registry()).validate(answer)


def host_schema() -> dict[str, Any]:
    """Return the schema of `hosts show --output json`, from the declaration of the collector's answer."""
    template = "#/$defs/{name}"
    _, parts = msgspec.json.schema_components([HostDetail], ref_template=template)
    detail = parts.pop("HostDetail")
    (line,) = (name for name in parts if name.startswith("Repeated"))
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **detail,
        "title": "The answer of service-record hosts show --output json",
        "required": ["version", *detail["required"]],
        "properties": {"version": {"const": 1}, **detail["properties"]},
        "$defs": parts
        | {"line": {"description": "A line of --output jsonl.", "$ref": template.format(name=line)}},
    }
    plain: dict[str, Any] = json.loads(msgspec.json.encode(schema))
    return plain


@cache
def _registry() -> Registry[Any]:
    """Return the schemas by the names of their files."""
    resources = []
    for path in SCHEMAS.glob("*.json"):
        contents = json.loads(path.read_text())
        Draft202012Validator.check_schema(contents)
        resources.append((path.name, DRAFT202012.create_resource(_strict(contents))))
    return Registry().with_resources(resources)


def _strict(schema: Any) -> Any:
    """Return a schema whose objects have no other fields. Fields may be added in later versions."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: _strict(each) for name, each in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        strict.setdefault("additionalProperties", False)
    return strict
