"""The reporter's settings as a file, for hosts that get it with everything else. Pure."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any


def settings_text(given: str, changes: Mapping[str, object]) -> str:
    """TOML of what is given, changed in these settings, whose names are as `assisted_service.url`.

    Lists of both are joined. Raises ValueError where what is given is no TOML.
    """
    settings: dict[str, Any] = tomllib.loads(given)
    for name, value in changes.items():
        section, _, key = name.rpartition(".")
        table = settings.setdefault(section, {}) if section else settings
        if not isinstance(table, dict):
            raise ValueError(  # noqa: TRY004  # the type is somebody's text
                f"{section} is a section; write [{section}] and its settings below"
            )
        table[key] = _joined(table.get(key), value)
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    sections = {name: value for name, value in settings.items() if isinstance(value, dict)}
    parts = [_lines(plain), *(f"[{_key(name)}]\n{_lines(table)}" for name, table in sections.items())]
    return "\n".join(part for part in parts if part)


def _joined(before: object, value: object) -> object:
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *(each for each in value if each not in before)]
    return value


def _lines(table: Mapping[str, object]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items())


def _key(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else _value(name)


def _value(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(name)} = {_value(inner)}' for name, inner in value.items())}}}"
    return str(value)
