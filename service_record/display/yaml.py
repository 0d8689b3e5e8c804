"""Documents as YAML, which people read too: lossless, and safe to look at on a terminal."""

from typing import Any, Final

import yaml

from service_record.display.text import UNSEEN, escaped

_FAST: Final[type[Any]] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # absent where libyaml is
_TEXT: Final = "tag:yaml.org,2002:str"
_NO_FOLDING: Final = 1 << 30


def as_yaml(document: object) -> str:
    """A document as YAML in block style; texts of several lines are literal blocks where they can be."""
    try:
        written = _dumped(document, _FAST)
    except UnicodeEncodeError:  # a lone surrogate, from the name of a file
        written = _dumped(document, yaml.SafeDumper)
    return escaped(written)


def _dumped(document: object, base: type[Any]) -> str:
    dumper = type("Dumper", (base,), {})  # of our own: what it represents it keeps for all who use it
    yaml.add_representer(str, _represented, Dumper=dumper)
    written: str = yaml.dump(document, Dumper=dumper, allow_unicode=True, sort_keys=False, width=_NO_FOLDING)
    return written


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    if UNSEEN.search(text):
        return dumper.represent_scalar(_TEXT, text, '"')  # so that `as_yaml` may write escapes
    return dumper.represent_scalar(_TEXT, text, "|" if "\n" in text else None)
