"""Find secrets in the columns of tables of text, by the names in their headers. Pure."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from service_record.redaction.ordinary_words import is_placeholder
from service_record.redaction.secret_names import find_name
from service_record.redaction.shapes import expand_parts

COLUMN_END: Final = expand_parts(rb"""(?i:<<PASSWORDS>>|<<TOKENS>>)["']?""")
COLUMNS: Final = COLUMN_END + rb"""(?:[,;]["']?[A-Za-z_]|\t| {2}| [/|]|\r?$)"""
"""Matches the end of a column's name in a header. A search for its beginning would take far more states."""
_NAME_OF_COLUMN: Final = re.compile(rb"""["']?[A-Za-z_][A-Za-z0-9_.-]*["']?""")
_TEXT: Final = re.compile(rb"[A-Za-z_].*")
_TITLE_OF_COLUMN: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]*(?: [A-Za-z0-9_.-]+){0,2}")
_GAP: Final = re.compile(rb"\t[ \t]*| {2,}| +[/|] +")
"""Matches between the names of columns in a comment above lines whose columns have blanks between them."""
_WORD: Final = re.compile(rb"[ \t]*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"']\S*))(?:[ \t]+|[ \t\r]*\Z)")
_CELL: Final = {
    separator: re.compile(rb' *(?:"((?:[^"]|"")*)"|([^%b"]*))[ \r]*(?:[%b]|\Z)' % (separator, separator))
    for separator in (b",", b";", b"\t", b"|", b":")
}
_REST: Final = re.compile(rb"(\S.*)\Z")
"""Matches the last column of a file in which a colon separates the columns. It may have further colons."""


@lru_cache(maxsize=64)
def read_header(header: bytes) -> tuple[bytes, list[Callable[[bytes], bool] | None]]:
    """Return the separator of the columns, and the check for the values of each; None if not secret.

    A comment may name the columns of the lines below it. There are no checks for a text that is no header.
    """
    text = header.strip(b" \t\r|#;")
    separators = b",;\t|"
    is_comment = header.lstrip().startswith((b"#", b";"))
    if is_comment:
        separators = b"" if _GAP.search(text) else b",;:"
        text = text if not separators else text.split()[-1]  # other words may stand before the columns
    separator = next((bytes([each]) for each in separators if each in text), b"")
    names = [name.strip() for name in (text.split(separator) if separator else _GAP.split(text))]
    name_of_column = _NAME_OF_COLUMN
    if separator in (b"", b"|"):
        name_of_column = _TEXT if is_comment else _TITLE_OF_COLUMN
    is_row = any(map(is_placeholder, names))  # `old_passwords OFF` is no header
    if is_row or len(names) == 1 or not all(map(name_of_column.fullmatch, names)):
        return separator, []
    return separator, [column_check(name) for name in names]


def column_check(name: bytes) -> Callable[[bytes], bool] | None:
    """Return the check for the values of a column of a table; None if they are not secret."""
    named = find_name(name)
    return named.check if named is not None else None


def secret_cells(header: bytes, line: bytes, position: int) -> list[tuple[int, int]] | None:
    """Return the secrets in a row that begins at `position`; None if it has another number of columns."""
    separator, checks = read_header(header)
    found: list[tuple[int, int]] = []
    if separator == b"|":
        position = len(line) - len(line[position:].lstrip(b" |"))
    end = len(line.rstrip(b" |\r")) if separator == b"|" else len(line)
    for number, check in enumerate(checks):
        is_last = number == len(checks) - 1
        pattern = _REST if is_last and separator == b":" else _CELL.get(separator, _WORD)
        cell = pattern.match(line, position, end)
        if cell is None or (cell.end() < end or cell[0].endswith(separator or b" ")) is is_last:
            return None
        position = cell.end()
        first, last = cell.span(cell.lastindex or 0)
        value = line[first:last].rstrip(b" \r")
        if check is not None and check(value):
            found.append((first, first + len(value)))
    return found


NO_ROW: Final = re.compile(rb"[ \t]*(?:[#;]|[-+|: \t]+\r?\Z)")
"""Matches a comment, or a line below the header of a table."""
