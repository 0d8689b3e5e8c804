"""Wrappings: how logs, journals, dumps and other files carry a text."""

import base64
import gzip
import html
import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, quote_plus

from tests.redaction.kinds import Kind

_JOURNAL: Final = "Nov 21 00:54:19 boot0 app[2213]: "


@dataclass(frozen=True, slots=True)
class Wrapping:
    """One way to carry a text.

    `wrap` returns None for a text that it cannot carry, for instance lines in a kernel command line.
    """

    name: str
    wrap: Callable[[Kind, str], str | None]
    width: int = 1
    """Characters for one of the text; 4/3 of base64 is rounded up."""


def _text(name: str, wrap: Callable[[str], str], width: int = 1) -> Wrapping:
    return Wrapping(name, lambda kind, secret: wrap(kind.text(secret)), width)


def _line(name: str, wrap: Callable[[str], str], width: int = 1) -> Wrapping:
    """Return a wrapping that takes only texts of one line."""

    def wrapped(kind: Kind, secret: str) -> str | None:
        text = kind.text(secret)
        return None if "\n" in text else wrap(text)

    return Wrapping(name, wrapped, width)


def _prefixed(prefix: str) -> Callable[[str], str]:
    return lambda text: "".join(f"{prefix}{line}\n" for line in text.split("\n"))


def _document(**values: object) -> str:
    return json.dumps(values, separators=(",", ":"))


def _in_json(text: str) -> str:
    return _document(level="error", msg=f"failed: {text}", pid=2213)


def _unicode_escaped(text: str) -> str:
    escaped = "".join(char if char.isascii() and char.isalnum() else f"\\u{ord(char):04x}" for char in text)
    return f'{{"level":"error","msg":"{escaped}","pid":2213}}'


def _journal_export(text: str) -> str:
    fields = "__REALTIME_TIMESTAMP=1763686459000000\nPRIORITY=6\n"
    if "\n" not in text:
        return f"{fields}MESSAGE={text}\n_PID=2213\n\n"
    size = len(text.encode()).to_bytes(8, "little").decode("latin-1")
    return f"{fields}MESSAGE\n{size}{text}\n_PID=2213\n\n"


def _set_x(kind: Kind, secret: str) -> str:
    """Return the trace of bash, which quotes words only where it has to."""
    return "+ " + " ".join(map(_bash_word, kind.words(secret))) + "\n"


def _bash_word(word: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9%+,./:=@_^-]+", word):
        return word
    if "\n" in word:
        return "$'" + word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    return "'" + word.replace("'", "'\\''") + "'"


def _processes(kind: Kind, secret: str) -> str | None:
    words = kind.words(secret)
    if "\n" in "".join(words):
        return None
    head = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
    return f"{head}root        2213  0.0  0.1  12345  6789 ?        Ss   00:54   0:00 {' '.join(words)}\n"


def _kernel(text: str) -> str:
    return f"Command line: BOOT_IMAGE=(hd0,gpt3)/vmlinuz root=/dev/vda4 rw {text} quiet\n"


def _execve(kind: Kind, secret: str) -> str:
    words = kind.words(secret)
    written = (f"a{number}={_audit_word(word)}" for number, word in enumerate(words))
    return f"type=EXECVE msg=audit(1763686459.123:456): argc={len(words)} {' '.join(written)}\n"


def _audit_word(word: str) -> str:
    """Return a word as auditd writes it: in hexadecimal when it has blanks, quotes or control characters."""
    if any(char in word for char in ' "\n\t') or not word.isascii():
        return word.encode().hex().upper()
    return f'"{word}"'


def _proctitle(kind: Kind, secret: str) -> str:
    title = "\0".join(kind.words(secret)).encode().hex().upper()
    return f"type=PROCTITLE msg=audit(1763686459.123:456): proctitle={title}\n"


def _base64(text: str) -> str:
    return base64.b64encode(f"{text}\n".encode()).decode()


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(f"{text}\n".encode(), mtime=0)).decode()


def _cloud_init(text: str) -> str:
    return f"write_files:\n- path: /etc/app.conf\n  encoding: b64\n  content: {_base64(text)}\n"


def _data_url(head: str, data: str) -> str:
    files = [{"path": "/etc/app.conf", "contents": {"source": f"data:{head},{data}"}}]
    return _document(ignition={"version": "3.4.0"}, storage={"files": files})


def _hexdump(text: str) -> str:
    return "".join(
        f"{offset:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  |{_visible(row)}|\n"
        for offset, row in _rows(text)
    )


def _xxd(text: str) -> str:
    return "".join(f"{offset:08x}: {row.hex(' ', -2):39}  {_visible(row)}\n" for offset, row in _rows(text))


def _rows(text: str) -> Iterator[tuple[int, bytes]]:
    data = text.encode() + b"\n"
    return ((at, data[at : at + 16]) for at in range(0, len(data), 16))


def _visible(row: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)


def _in_double_quotes(text: str) -> str:
    escaped = re.sub(r'(["\\$`])', r"\\\1", text)
    return f'MESSAGE="{escaped}"\n'


def _in_ansi_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"MESSAGE=$'{escaped}'\n"


def _environment(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'[Service]\nEnvironment="MESSAGE={escaped}"\n'


def _block(text: str) -> str:
    return "data:\n  app.conf: |\n" + textwrap.indent(text, "    ", lambda _: True) + "\n  other: x\n"


def _ansible(text: str) -> str:
    return f'fatal: [master-0]: FAILED! => {{"changed": false, "msg": {json.dumps(text)}, "rc": 1}}\n'


WRAPPINGS: Final = (
    _text("plain", lambda text: f"{text}\n"),
    _text("JSON", _in_json),
    _text("JSON in JSON", lambda text: _document(log=_in_json(text), stream="stderr")),
    _text("\\u in JSON", _unicode_escaped, 4),
    _text("logfmt", lambda text: f"time=2026-11-21T00:54:19Z level=error msg={json.dumps(text)} id=7\n"),
    _text("journal short", _prefixed(_JOURNAL)),
    _text("journal short-iso", _prefixed("2026-11-21T00:54:19+0000 boot0 app[2213]: ")),
    _text(
        "journal JSON",
        lambda text: _document(__CURSOR="s=1;i=2", MESSAGE=text, _PID="2213", PRIORITY="6") + "\n",
    ),
    _text("journal export", _journal_export),
    _text("CRI", _prefixed("2026-11-21T00:54:19.123456789+00:00 stdout F ")),
    _text("klog", _prefixed("I1121 00:54:19.123456    2213 app.go:42] ")),
    _text("syslog", _prefixed("<13>1 2026-11-21T00:54:19.1Z boot0 app 2213 - - ")),
    _text("syslog #012", lambda text: _JOURNAL + text.replace("\n", "#012") + "\n"),
    Wrapping("set -x", _set_x),
    Wrapping("ps", _processes),
    _line("kernel command line", _kernel),
    Wrapping("audit EXECVE", _execve, 2),
    Wrapping("audit PROCTITLE", _proctitle, 2),
    _text("base64 in content:", _cloud_init, 2),
    _text("base64 in a journal", lambda text: f"{_JOURNAL}got {_base64(text)}\n", 2),
    _text("base64 in lines", lambda text: "\n".join(textwrap.wrap(_base64(text), 76)) + "\n", 2),
    _text("data: URL, gzip", lambda text: _data_url(";base64", _packed(text)), 2),
    _text("data: URL, percent", lambda text: _data_url("", quote(f"{text}\n", safe="")), 3),
    _text("hexdump -C", _hexdump, 3),
    _text("xxd", _xxd, 3),
    _text("query", lambda text: f'"GET /log?app=x&message={quote_plus(text)}&v=1 HTTP/1.1" 200\n', 3),
    _text("URL", lambda text: f"opening https://logs.example.com/{quote(text)}/end\n", 3),
    _line("INI", lambda text: f"[last]\nmessage = {text}\ncount = 1\n"),
    _text("YAML scalar", lambda text: f"status:\n  message: {json.dumps(text)}\n  count: 1\n"),
    _text("YAML block", _block),
    _text("XML attribute", lambda text: f'<entry message="{html.escape(text)}" count="1"/>\n'),
    _text("XML element", lambda text: f"<entry><message>{html.escape(text)}</message></entry>\n"),
    _line("Environment=", _environment),
    _text("shell, single quotes", lambda text: f"MESSAGE={shlex.quote(text)}\n"),
    _text("shell, double quotes", _in_double_quotes),
    _text("shell, ANSI quotes", _in_ansi_quotes),
    _text("Python repr", lambda text: f"Error: {json.loads(_document(message=text, code=1))!r}\n"),
    _text("Ansible", _ansible),
)

LIMITED: Final = frozenset(
    {
        *(
            "plain",
            "JSON",
            "JSON in JSON",
            "\\u in JSON",
            "journal short",
            "journal short-iso",
            "journal JSON",
        ),
        *("journal export", "set -x", "audit EXECVE", "audit PROCTITLE"),
        *("base64 in content:", "base64 in a journal", "base64 in lines", "query", "URL"),
    }
)
"""The wrappings in which at most 2 % of unknown secrets may leak."""
