"""Recognise a file by its first bytes: a record, a journal, an archive or something else. Pure.

The name of the file does not matter. All verbs use this module, so they agree about every file.
"""

import re
from enum import StrEnum
from typing import Final

HEAD_BYTES: Final = 8192
"""Bytes of a file that are enough to recognise it."""
TAR_BLOCK_BYTES: Final = 512


class FileForm(StrEnum):
    """The kind of a file. The values appear in messages."""

    EMPTY = "empty"
    RECORD = "a record"
    JSON = "JSON of another program"
    JOURNAL = "a journal as text"
    JOURNAL_JSON = "a journal as JSON"
    JOURNAL_EXPORT = "a journal in systemd's export format"
    JOURNAL_VERBOSE = "a journal of journalctl -o verbose"
    JOURNAL_BINARY = "a binary journal"
    KERNEL = "messages of the kernel"
    CONTAINER = "a log of a container"
    TEXT = "plain text"
    UTF_16 = "text in UTF-16"
    HTML = "HTML"
    XML = "XML"
    BINARY = "binary data"
    TAR = "a tar archive"
    ZIP = "a zip archive"
    COMPRESSED = "compressed data"


LOGS: Final = frozenset(
    {
        *(
            FileForm.JOURNAL,
            FileForm.JOURNAL_JSON,
            FileForm.JOURNAL_EXPORT,
            FileForm.JOURNAL_VERBOSE,
            FileForm.JOURNAL_BINARY,
        ),
        *(FileForm.KERNEL, FileForm.CONTAINER, FileForm.TEXT, FileForm.UTF_16),
    }
)
"""Forms of files that are read line by line."""
ARCHIVES: Final = frozenset({FileForm.TAR, FileForm.ZIP, FileForm.COMPRESSED})

_MAGIC: Final = (
    (b"PK\x03\x04", FileForm.ZIP),
    (b"PK\x05\x06", FileForm.ZIP),  # an empty one
    (b"\x1f\x8b\x08", FileForm.COMPRESSED),
    (b"BZh", FileForm.COMPRESSED),
    (b"\xfd7zXZ\0", FileForm.COMPRESSED),
    (b"\x28\xb5\x2f\xfd", FileForm.COMPRESSED),
    (b"LPKSHHRH", FileForm.JOURNAL_BINARY),
    (b"\xff\xfe", FileForm.UTF_16),
    (b"\xfe\xff", FileForm.UTF_16),
)
_TAR_MAGIC: Final = slice(257, 262)
_TAR_CHECKSUM: Final = slice(148, 156)
_PHASE: Final = rb'"phase"\s*:\s*"[a-z-]+(?: [a-z-]+)? (?:start|end)"'
_LINE_OF_RECORD: Final = rb"(?m)^[ \t,\[]*\{[^\n]*" + _PHASE
_TORN_RECORD: Final = rb'\{\s*"(?:timestamp|phase|stage|bootId|invocationId)"[^}]*$'
_JSON_LINES: Final = rb"\{[^\n]*\}[ \t\r]*\n\s*\{|\{[^\n]*\"(?:msg|message|log)\"\s*:[^\n]*\}\s*$"
_JOURNAL_FIELD: Final = rb'"(?:__REALTIME_TIMESTAMP|__CURSOR|__MONOTONIC_TIMESTAMP|_BOOT_ID|MESSAGE)"\s*:'
_KEY: Final = rb'"[^"\\\n]{1,100}"\s*:'
_EXPORT: Final = rb"__(?:CURSOR|REALTIME_TIMESTAMP|MONOTONIC_TIMESTAMP)="
_VERBOSE: Final = rb"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \S+ \[(?:s=|_|$)"
_EVENT_STREAM: Final = rb"(?:data: )?\x1e?"
"""The text before each object of `journalctl -o json-sse` and `-o json-seq`."""
_LIST_OF_NODES: Final = rb'"kind"\s*:\s*"NodeList"'
TIMES: Final = (
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"  # short-iso, short-iso-precise
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"  # short, short-precise, syslog
    r"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \S+"  # short-full, with-unit
    r"|\d{10}\.\d{6}"  # short-unix
    r"|\[ *\d+\.\d{6}(?: < *\d+\.\d+ >)?\]"  # short-monotonic, short-delta
    # short in another language; the name of a month may have spaces: `ноя 05`, `de gen. 05`, ` 1月 05`
    r"|[^\x00-\x1f\[<{\"=:#]{2,48}? [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?)"
)
"""A pattern of the times at the beginning of a journal's lines, in every text form of journalctl."""
_JOURNAL_LINE: Final = rf"{TIMES} (\S*[^\s:]) [^\s:\[\]]+(?:\[\d{{1,10}}\])?: ".encode()
_LINE_WITHOUT_HOST: Final = rf"(?!\[){TIMES} (?:[^\s:\[\]]+\[\d{{1,10}}\]|kernel): ".encode()
"""A line of `journalctl --no-hostname`, as in the emergency shell of CoreOS. Without a date it looks like
dmesg."""
_OF_A_JOURNAL: Final = rb" (?:systemd(?:-[a-z]+)?|ignition)\[\d+\]: "
"""Such a line distinguishes a journal from a log of debian-installer, whose lines have no host either."""
KERNEL_TIMES: Final = (
    r"(?:<\d+>)?(?:[a-z]+ *: *[a-z]+ *: )?"  # dmesg --raw, dmesg --decode
    r"\[(?: *\d+\.\d{6}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]"
)
"""A pattern of the text before a message of the kernel, in dmesg and on a console."""
_KERNEL_LINE: Final = KERNEL_TIMES.encode()
_CONTAINER_LINE: Final = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP] "
_LEAST_PRINTABLE: Final = 0.95  # logs of serial lines contain NULs and noise
_PREFACE: Final = rb"(?:-- .* --|-- [A-Z].*|\xe2\x96\x91\xe2\x96\x91.*|-- )$"
"""Lines that journalctl prints between entries: `-- Boot … --`, `-- Logs begin at …`, and catalog texts."""


def recognise(head: bytes) -> FileForm:
    """Return the form of a file by its first bytes: 8 KiB of it, or all if it is shorter."""
    form = next((form for magic, form in _MAGIC if head.startswith(magic)), None)
    if form is not None:
        return form
    if is_tar(head):
        return FileForm.TAR
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\0 \t\r\n")
    if not text:
        return FileForm.EMPTY
    if (form := _journal_form(text) or _json_form(text) or _markup_form(text)) is not None:
        return form
    # The first entry may come after damage.
    return FileForm.RECORD if re.search(_LINE_OF_RECORD, text) else _form_of_lines(text)


def _journal_form(text: bytes) -> FileForm | None:
    """Return the form of a journal in several lines for each entry; None for any other text."""
    if re.match(_EXPORT, text):
        return FileForm.JOURNAL_EXPORT
    return FileForm.JOURNAL_VERBOSE if re.match(_VERBOSE, _without_preface(text)) else None


def _json_form(text: bytes) -> FileForm | None:
    """Return the form of JSON; None for any other text. dmesg also begins with a bracket."""
    text = re.sub(rb"\A" + _EVENT_STREAM, b"", text)
    inside = text[1:].lstrip(b" \t\r\n,") if text.startswith(b"[") else text
    if inside and not inside.startswith((b"{", b"]")):
        return None
    if re.search(_JOURNAL_FIELD, inside):
        return FileForm.JOURNAL_JSON
    if re.search(_PHASE, inside) or re.match(_TORN_RECORD, inside) or not re.search(_KEY, inside):
        return FileForm.RECORD  # perhaps torn, or upstream's record without an entry: []
    # Many programs log an object in each line. `kubectl cluster-info dump` prints logs after a list of nodes.
    is_text = re.match(_JSON_LINES, text) or re.search(_LIST_OF_NODES, text[:1000])
    return FileForm.TEXT if is_text else FileForm.JSON


def _markup_form(text: bytes) -> FileForm | None:
    beginning = text[:1000].lower()
    if beginning.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return FileForm.HTML
    return FileForm.XML if beginning.startswith(b"<?xml") else None


def _without_preface(text: bytes) -> bytes:
    while text.startswith(b"-- "):
        text = text.partition(b"\n")[2]
    return text


def _form_of_lines(text: bytes) -> FileForm:
    """Return the form of most of the first lines. A capture of a terminal also has other lines."""
    lines = [line for line in text.split(b"\n")[:100] if line.strip() and not re.match(_PREFACE, line)]
    if len(text) >= HEAD_BYTES - 100 and len(lines) > 1:
        del lines[-1]  # cut short
    most = (len(lines) + 1) // 2
    if sum(1 for line in lines if re.match(_CONTAINER_LINE, line)) >= most:
        return FileForm.CONTAINER
    kernel = [line for line in lines if re.match(_KERNEL_LINE, line)]
    journal = [match for line in lines if (match := re.match(_JOURNAL_LINE, line)) is not None]
    is_journal = len(journal) >= max(most, 1)
    is_hostless = re.search(_OF_A_JOURNAL, text) is not None
    hostless = [line for line in lines if is_hostless and re.match(_LINE_WITHOUT_HOST, line)]
    # Each line of short-monotonic has the same host; dmesg has the names of drivers there.
    if len(kernel) >= max(most, 1) and not (is_journal and len({match[1] for match in journal}) == 1):
        return FileForm.KERNEL
    if is_journal or len(hostless) >= max(most, 1):
        return FileForm.JOURNAL
    sample = text[:1000]
    printable = sum(1 for byte in sample if byte >= ord(" ") or byte in b"\t\r\n\x1b\x08\x0c")
    return FileForm.TEXT if printable >= _LEAST_PRINTABLE * len(sample) else FileForm.BINARY


def is_record(head: bytes) -> bool:
    """Return True if a file is certainly a record. `recognise` also accepts damaged ones."""
    return re.search(_PHASE, head) is not None and recognise(head) is FileForm.RECORD


def is_tar(head: bytes) -> bool:
    """Return True for a tar file, including the old format without a magic number; see tar(5)."""
    if head[_TAR_MAGIC] == b"ustar":
        return True
    if len(head) < TAR_BLOCK_BYTES or not any(head[:TAR_BLOCK_BYTES]):
        return False
    field = head[_TAR_CHECKSUM].strip(b" \0")
    block = head[:148] + b" " * 8 + head[156:TAR_BLOCK_BYTES]
    return bool(re.fullmatch(rb"[0-7]{1,7}", field)) and int(field, 8) == sum(block)
