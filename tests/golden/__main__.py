"""`make golden`: write every golden file, the tables of examples and the schemas of documents."""

import json
import sys

from bench.table import replace_between
from tests.golden.outputs import (
    EXIT_CODES,
    GOLDEN,
    REPOSITORY,
    TABLE_PAGE,
    exit_codes,
    golden_files,
    render,
    table,
)
from tests.schemas import SCHEMAS, document_schemas, host_schema

expected = dict(golden_files())
for path, arguments in expected.items():
    text = render(path, arguments)
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        sys.stderr.write(f"{path.relative_to(REPOSITORY)}\n")
for left in {path for path in GOLDEN.glob("*/*") if path.parent.name != "__pycache__"} - set(expected):
    left.unlink()
EXIT_CODES.write_text(exit_codes())
replace_between(TABLE_PAGE, "examples", table())
(SCHEMAS / "host.schema.json").write_text(json.dumps(host_schema(), indent=2) + "\n")
for verb, schema in document_schemas().items():
    (SCHEMAS / f"{verb}.schema.json").write_text(json.dumps(schema, indent=2) + "\n")
