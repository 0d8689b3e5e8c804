"""The JSON schemas of docs/schemas, made strict: a field that no schema has is an error."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

SCHEMAS: Final = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def check(answer: object, name: str, part: str = "") -> None:
    """Raise ValidationError unless an answer is as `name` describes it, or as the definition `part` does."""
    place = f"{name}.schema.json{part and f'#/$defs/{part}'}"
    Draft202012Validator({"$ref": place}, registry=_registry()).validate(answer)


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
