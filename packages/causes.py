"""`make rules`: the built-in rules as each start of `analyze` reads them, in diagnosis/rules/parsed.json."""

from pathlib import Path

from service_record.diagnosis import causes

_PLACE = Path(causes.__file__).parent


def parsed() -> bytes:
    """Return what the file has to be."""
    return causes.parsed_rules([(_PLACE / "rules" / f"{name}.yaml").read_bytes() for name in causes.FAMILIES])


if __name__ == "__main__":
    (_PLACE / causes.PARSED).write_bytes(parsed())
