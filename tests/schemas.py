"""The JSON schemas of docs/schemas: those that are made from the types of documents, and a strict check.

In the check, a field that no schema has is an error.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from service_record.cli.shared_answers import CheckDocument, ChecksDocument
from service_record.display import analysis_document as analysis
from service_record.display import comparison_document as comparison
from service_record.display.fleet_document import FleetDocument, HostDocument
from service_record.display.machine import DamageDocument, ProgramDocument
from service_record.display.timeline_document import RowDocument, TimelineDocument
from service_record.http.collector_answers import HostDetail
from service_record.triage.triage_document import LISTS, TriageDocument, TriageHeadDocument

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
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
        "$schema": _DIALECT,
        **detail,
        "title": "The answer of service-record hosts show --output json",
        "required": ["version", *detail["required"]],
        "properties": {"version": {"const": 1}, **detail["properties"]},
        "$defs": parts
        | {"line": {"description": "A line of --output jsonl.", "$ref": template.format(name=line)}},
    }
    plain: dict[str, Any] = json.loads(msgspec.json.encode(schema))
    return plain


def document_schemas() -> dict[str, dict[str, Any]]:
    """Return verb -> the schema of its documents, from their types."""
    roots = (analysis.TroubleDocument, analysis.FailedUnitDocument, analysis.EvidenceRootDocument)
    schemas = {
        "show": _schema("show", analysis.ShowWithUnitsDocument, DamageDocument),
        "analyze": _schema("analyze", analysis.AnalysisDocument, analysis.VerdictDocument, *roots),
        "timeline": _schema("timeline", TimelineDocument, RowDocument),
        "diff": _schema("diff", comparison.ComparisonDocument),
        "hosts": _schema("hosts", FleetDocument, HostDocument),
        "triage": _schema("triage", TriageDocument, TriageHeadDocument),
        "checks": _schema("doctor and preflight", ChecksDocument, CheckDocument),
    }
    parts = {verb: schema["$defs"] for verb, schema in schemas.items()}
    text = {"type": "string"}
    fields = {"service": text, "phase": text}
    entry = {"type": "object", "required": ["service", "phase"], "properties": fields}
    fields = {"service": text, "malformed": {"$ref": "#/$defs/damage"}}
    damage = {"type": "object", "required": ["service", "malformed"], "properties": fields}
    findings = [
        _add_field(parts["analyze"][part], "finding", {"const": finding})
        for field, finding in analysis.FINDINGS.items()
        for part in _referred(schemas["analyze"]["properties"][_encoded_name(field)])
    ]
    differences = [
        _add_field(parts["diff"][part], "service", text)
        for part in _referred(parts["diff"]["comparedService"]["properties"]["differences"])
    ]
    evidence = _add_field(parts["diff"]["evidence"], "what", {"const": "evidence"})
    items = [
        _add_field(parts["triage"][part], "list", {"const": name})
        for name in LISTS
        for part in _referred(schemas["triage"]["properties"][name])
    ]
    names = ("uri", "member", "host", "cluster", "release", "verdict", "service", "stage")
    columns: dict[str, object] = {
        **dict.fromkeys(names, text),
        "latest": {"type": ["string", "null"], "format": "date-time"},
        "line": text,
    }
    parts["triage"]["row"] = {
        "description": "A bundle of `triage --cause`.",
        "type": "object",
        "required": [*columns],
        "properties": columns,
    }
    lines: dict[str, dict[str, Any]] = {
        "show": {"anyOf": [entry, damage]},
        "analyze": {"anyOf": [{"$ref": "#/$defs/verdictHead"}, *findings]},
        "timeline": {"$ref": "#/$defs/row"},
        "diff": {"anyOf": [evidence, *differences]},
        "hosts": {"$ref": "#/$defs/host"},
        "triage": {"anyOf": [{"$ref": "#/$defs/triageHead"}, *items]},
        "checks": {"$ref": "#/$defs/check"},
    }
    for verb, line in lines.items():
        parts[verb]["line"] = {"description": "A line of --output jsonl.", **line}
    return schemas


def _encoded_name(field: str) -> str:
    """Return the name of a field of AnalysisDocument in its document."""
    document = analysis.AnalysisDocument
    return dict(zip(document.__struct_fields__, document.__struct_encode_fields__, strict=True))[field]


def _schema(verb: str, document: type[ProgramDocument], *more: type[ProgramDocument]) -> dict[str, Any]:
    """Return the schema of a document, with the definitions that it and the types in `more` need."""
    _, parts = msgspec.json.schema_components([document, *more], ref_template="#/$defs/{name}")
    names = {name: _part_name(name) for name in parts}
    assert len(set(names.values())) == len(names)
    types = {each.__name__: each for each in _subclasses(ProgramDocument)}
    definitions = {}
    for name, part in parts.items():
        part.pop("title", None)
        texts = _field_texts(types[name]) if name in types else {}
        for field, schema in part.get("properties", {}).items():
            described = {"description": texts[field]} if field in texts else {}
            part["properties"][field] = _without_default(schema) | described
        definitions[names[name]] = part
    whole = definitions.pop(names[document.__name__])
    schema = {
        "$schema": _DIALECT,
        "title": f"The answer of service-record {verb} --output json",
        **whole,
        "$defs": definitions,
    }
    plain: dict[str, Any] = _rename(json.loads(msgspec.json.encode(schema)), names)
    return plain


def _part_name(name: str) -> str:
    """Return the name of a definition: `failedUnit` for FailedUnitDocument."""
    short = "VerdictHead" if name == "VerdictDocument" else name.removesuffix("Document")
    return short[0].lower() + short[1:]


def _subclasses(base: type[ProgramDocument]) -> Iterator[type[ProgramDocument]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)


def _field_texts(document: type[ProgramDocument]) -> dict[str, str]:
    """Return name of a field in the document -> the text below its declaration."""
    names = dict(zip(document.__struct_fields__, document.__struct_encode_fields__, strict=True))
    texts: dict[str, str] = {}
    for base in reversed(document.__mro__):
        if issubclass(base, ProgramDocument):
            (declaration,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(declaration, ast.ClassDef)
            for field, text in pairwise(declaration.body):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(value))
                    ):
                        texts[names[name]] = " ".join(value.split())
    return texts


def _without_default(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field that is left out if it has its default value."""
    if "default" not in schema:
        return schema
    rest = {name: value for name, value in schema.items() if name != "default"}
    if schema["default"] is False:
        return {"const": True}
    if schema["default"] is None and "anyOf" in rest:
        rest["anyOf"] = [each for each in rest["anyOf"] if each != {"type": "null"}]
        return rest["anyOf"][0] if len(rest["anyOf"]) == 1 else rest
    return rest


def _rename(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema with other names in its references to definitions."""
    if isinstance(schema, list):
        return [_rename(each, names) for each in schema]
    if isinstance(schema, dict):
        return {name: _rename(each, names) for name, each in schema.items()}
    prefix, found, name = schema.partition("#/$defs/") if isinstance(schema, str) else ("", "", "")
    return f"{found}{names[name]}" if found and not prefix else schema


def _referred(schema: Any) -> Iterable[str]:
    """Return the names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return [schema["$ref"].rpartition("/")[2]]
        return [name for key, each in schema.items() if key != "discriminator" for name in _referred(each)]
    return [name for each in schema for name in _referred(each)] if isinstance(schema, list) else []


def _add_field(part: Mapping[str, Any], name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition with one more field, which its objects must have."""
    required = [name, *part.get("required", ())]
    return {**part, "required": required, "properties": {name: schema, **part["properties"]}}


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
