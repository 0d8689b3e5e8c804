"""Files that are neither records nor bundles, although somebody gave them as such. Pure."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from service_record.read.source import STANDARD_INPUTS
from service_record.record.entry import Malformed, Piece

PIECES: Final = 2
"""The number of pieces of a file needed to tell."""

_ARCHIVES: Final = (".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".zip")
_RECORD: Final = ".json"
_JSON: Final = ("{", "[", "\0")
"""The beginnings of what is left of a record; NULs stand where a loss of power has taken the rest."""
_PAGES: Final = ("<!doctype html", "<html", "<head", "<body")


class ForeignError(Exception):
    """A guess at a file that is neither a record nor a bundle, and what to do, in one line."""


def refuse_foreign(name: str, beginning: Iterable[Piece]) -> None:
    """Raise ForeignError for a file of that name of which all pieces, or the first two, look foreign.

    A file that is called like a record is one, even if nothing is in it; so is standard input.
    """
    pieces = list(islice(beginning, PIECES))
    is_record = name.endswith(_RECORD) or name in STANDARD_INPUTS
    if not pieces and not is_record:
        raise ForeignError(_refusal(name, "is empty"))
    if len(pieces) != 1 or not isinstance(pieces[0], Malformed):
        return
    text = pieces[0].text
    if not text.strip("\0") and not is_record:
        raise ForeignError(_refusal(name, "looks like an empty archive"))
    if not text.startswith(_JSON):
        raise ForeignError(_refusal(name, f"looks like {_kind(text)}"))


def refuse_unpacked(name: str, head: bytes) -> None:
    """Raise ForeignError for a file called like an archive whose first bytes are not those of one."""
    if not name.endswith(_ARCHIVES):
        return
    text = head.decode(errors="backslashreplace").strip()
    refuse_foreign(name, [Malformed(1, text, "")] if text else [])


def _kind(text: str) -> str:
    beginning = text.lstrip("\ufeff \t\r\n")[:1000].lower()
    if beginning.startswith(_PAGES):
        return "HTML"
    if beginning.startswith("<?xml"):
        return "XML"
    is_text = "".join(beginning.split()).isprintable() and "\\x" not in beginning
    return "plain text" if is_text else "binary data"


def _refusal(name: str, looks: str) -> str:
    return f"{name}: not a bundle and not a record: {looks}; look into it, or fetch the bundle again"
