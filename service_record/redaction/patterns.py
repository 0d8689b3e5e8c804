"""The shapes of secrets that nobody told us; of what several find, the first says what it is. Pure."""

from typing import Final

from service_record.redaction.shape import Shape
from service_record.redaction.shapes_alone import HASHES, KEYS, PEM_BEGIN, TOKENS
from service_record.redaction.shapes_named import HEADERS, NAMES, URLS
from service_record.redaction.shapes_of_commands import COMMANDS

SHAPES: Final[tuple[Shape, ...]] = (*KEYS, *TOKENS, *HASHES, *HEADERS, *URLS, *COMMANDS, *NAMES)

__all__ = ["PEM_BEGIN", "SHAPES", "Shape"]
