"""A document in the form that a program asked for."""

from collections.abc import Iterable

from service_record.display.document import Document
from service_record.display.machine import as_json, encoded


def written(document: Document, lines: Iterable[Document], form: str) -> str:
    """The document as `json` or `yaml`; or its lines as `jsonl`, one object each."""
    if form == "jsonl":
        return "".join(f"{encoded(line)}\n" for line in lines)
    if form == "yaml":
        from service_record.display.yaml import as_yaml  # noqa: PLC0415  # takes longer than all the rest

        return as_yaml(document)
    return as_json(document)
