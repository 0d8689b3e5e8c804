"""Documents as YAML, which people read too: safe to look at on a terminal, and taken by every YAML reader.

Nothing is lost but what YAML cannot hold: bytes that are not UTF-8, which only the name of a file can have.
"""

from typing import Any, Final

import yaml

from service_record.display.text import UNSEEN, escaped
from service_record.line import mended

_FAST: Final[type[Any]] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # absent where libyaml is
_TEXT: Final = "tag:yaml.org,2002:str"
_NO_FOLDING: Final = 1 << 30


def as_yaml(document: object) -> str:
    """A document as YAML in block style; texts of several lines are literal blocks where they can be."""
    dumper = type("Dumper", (_FAST,), {})  # of our own: what it represents it keeps for all who use it
    yaml.add_representer(str, _represented, Dumper=dumper)
    written = yaml.dump(document, Dumper=dumper, allow_unicode=True, sort_keys=False, width=_NO_FOLDING)
    return escaped(written)


def _represented(dumper: yaml.SafeDumper, any_text: str) -> yaml.Node:
    text = mended(any_text)
    if UNSEEN.search(text):
        return dumper.represent_scalar(_TEXT, text, '"')  # so that `as_yaml` may write escapes
    return dumper.represent_scalar(_TEXT, text, "|" if "\n" in text else None)
