"""Sizes as people type them: `--max-size 64M`."""

import re
from typing import Final

import click

_FORM: Final = re.compile(r"(\d{1,15}) ?(?:([KMG])(?:i?B)?|B)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Size(click.ParamType[int]):
    """Bytes; a K is 1024 of them."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not isinstance(value, str):
            return value
        found = _FORM.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is no size; sizes are like 64M, 512 KiB, 1G, 1000000", param, ctx)
        return int(found[1]) * _UNITS[(found[2] or "").upper()]
