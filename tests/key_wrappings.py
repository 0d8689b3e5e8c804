"""Private keys of openssl as programs write them into logs: behind prefixes, in documents, encoded."""

import base64
import gzip
import html
import json
import subprocess
import tempfile
import textwrap
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from service_record.redaction import Rules
from tests.shape_examples import redact

_Wrap: TypeAlias = Callable[[bytes], bytes]
_SEED: Final = "0123456789abcdef"


def _openssl(*arguments: str | Path, text: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *arguments], input=text, check=True, capture_output=True).stdout


def _ec(curve: str) -> bytes:
    return _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}")


def _ssh(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "key")
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path], check=True)
        return path.read_bytes()


@cache
def private_keys() -> Mapping[str, bytes]:
    """Return a private key of each kind."""
    rsa = _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
    curves = {curve: _ec(curve) for curve in ("P-256", "P-384", "P-521")}
    return {
        "RSA 2048": rsa,
        "RSA 4096": _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:4096"),
        "RSA, PKCS #1": _openssl("pkey", "-traditional", text=rsa),
        **curves,
        **{f"{curve}, SEC 1": _openssl("pkey", "-traditional", text=key) for curve, key in curves.items()},
        "Ed25519": _openssl("genpkey", "-algorithm", "ED25519"),
        "encrypted PKCS #8": _openssl("pkcs8", "-topk8", "-passout", "pass:aB3dE-fG5iJ", text=rsa),
        "encrypted PEM": _openssl("rsa", "-traditional", "-aes256", "-passout", "pass:aB3dE-fG5iJ", text=rsa),
        "OpenSSH Ed25519": _ssh("ed25519"),
        "OpenSSH RSA": _ssh("rsa"),
    }


def _each(write: Callable[[str, int], str]) -> _Wrap:
    """Return what writes each line of a key as one entry of a log."""

    def wrap(key: bytes) -> bytes:
        return "\n".join(write(line, at) for at, line in enumerate(key.decode().split("\n")[:-1])).encode()

    return wrap


def _journal_export(line: str, at: int) -> str:
    fields = [f"_FIELD{number}=value {number} of /usr/bin/podman" for number in range(28)]
    return "\n".join([f"__CURSOR=s={_SEED};i={at:x}", *fields, f"MESSAGE={line}", "_PID=77", ""])


def _journal_json(line: str, at: int) -> str:
    fields = {"__CURSOR": f"s={_SEED};i={at:x};m={at * 977:x}", "__REALTIME_TIMESTAMP": str(17 * 10**14 + at)}
    return json.dumps(fields | {"MESSAGE": line, "_HOSTNAME": "master-0", "SYSLOG_IDENTIFIER": "a.sh"})


def _entry(prefix: str) -> _Wrap:
    """Return what puts a key into a record's errorMessage, each line behind a prefix."""

    def wrap(key: bytes) -> bytes:
        lines = [f"{prefix}{line}" for line in key.decode().split("\n")[:-1]]
        return json.dumps({"phase": "service end", "errorMessage": "\n".join(lines)}).encode()

    return wrap


def _replaced(end: bytes) -> _Wrap:
    return lambda key: b"message: " + key.replace(b"\n", end)


def _base64_lines(prefix: str, columns: int = 76) -> _Wrap:
    def wrap(key: bytes) -> bytes:
        lines = textwrap.wrap(base64.b64encode(key).decode(), columns)
        return "\n".join(
            prefix.replace("NUMBER", str(100 + at)) + line for at, line in enumerate(lines)
        ).encode()

    return wrap


def _in_json(layers: int) -> _Wrap:
    def wrap(key: bytes) -> bytes:
        text = key.decode()
        for _ in range(layers):
            text = json.dumps({"a": 1, "key": text, "b": 2})
        return text.encode()

    return wrap


def _dumped(line_of: Callable[[int, bytes], str], size: int = 16) -> _Wrap:
    """Return what dumps the bytes of a key in hexadecimal, so many in a line."""

    def wrap(key: bytes) -> bytes:
        return "\n".join(line_of(at, key[at : at + size]) for at in range(0, len(key), size)).encode()

    return wrap


def _words(data: bytes) -> str:
    """Words of 16 bits as hexdump(1) and od -x print them on most machines: the second byte first."""
    return " ".join(f"{data[at : at + 2][::-1].hex():>04}" for at in range(0, len(data), 2))


def _printed(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


_JOURNAL: Final = "Nov 21 01:05:10 master-0 bootkube.sh[2117]: "
LINES: Final[Mapping[str, _Wrap]] = {
    "alone": bytes,
    "CRI": _each(lambda line, at: f"2026-11-21T01:05:10.{123456789 + at}Z stderr F {line}"),
    "CRI, JSON": _each(lambda line, at: f"2026-11-21T01:05:10.{at:09}Z stdout F {json.dumps({'msg': line})}"),
    "must-gather": _each(lambda line, at: f"2026-11-21T01:05:{10 + at % 50}.{123456789 + at}Z {line}"),
    "klog": _each(lambda line, at: f"I1121 01:05:10.{123456 + at}    {2117 + at} main.go:{12 + at}] {line}"),
    "logrus": _each(lambda line, at: f'time="2026-11-21T01:05:{10 + at % 50}Z" level=info msg="{line}"'),
    "zap": _each(lambda line, at: json.dumps({"level": "info", "ts": 17.5 + at, "msg": line})),
    "zap, console": _each(lambda line, at: f'2026-11-21T01:05:10.{at:03}Z\tINFO\tctl\t{line}\t{{"n": {at}}}'),
    "Docker": _each(
        lambda line, at: json.dumps({"log": f"{line}\n", "stream": "stdout", "time": f"01:05:10.{at}Z"})
    ),
    "journal, JSON": _each(_journal_json),
    "journal, export": _each(_journal_export),
    "journal, short": _each(lambda line, at: f"{_JOURNAL}{line}"),
    "journal, ISO": _each(
        lambda line, at: f"2026-11-21T01:05:{10 + at % 50}+0000 master-0 a.sh[2117]: {line}"
    ),
    "journal, verbose": _each(
        lambda line, at: (
            f"Sat 2026-11-21 01:05:10.{at:06} UTC [s=9f;i={at:x}]\n    MESSAGE={line}\n    _PID=7"
        )
    ),
    "journal, between others": _each(
        lambda line, at: f"{_JOURNAL}{line}\nNov 21 01:05:10 m kernel: fine {at}"
    ),
    "Python's logging": _each(lambda line, at: f"2026-11-21 01:05:10,{123 + at} INFO root: {line}"),
    "Python's logging, basic": _each(lambda line, at: f"INFO:root:{line}"),
    "Python's repr": _each(lambda line, at: f"[{at}] {line!r},"),
    "RFC 5424": _each(
        lambda line, at: f'<34>1 2026-11-21T01:05:10.{at:03}Z m su {at} ID47 [x@32473 iut="3"] {line}'
    ),
    "RFC 3164": _each(lambda line, at: f"<34>Nov 21 01:05:{10 + at % 50} master-0 su[{100 + at}]: {line}"),
    "kernel": _each(lambda line, at: f"[ {12 + at}.{123456 + at}] systemd[1]: {line}"),
    "cat -A": _each(lambda line, at: f"{line}$"),
    "cat -n": _each(lambda line, at: f"{at:6}\t{line}"),
    "grep -n": _each(lambda line, at: f"etc/key.pem:{at}:{line}"),
    "grep -r": _each(lambda line, at: f"etc/key.pem:{line}"),
    "diff, added": _each(lambda line, at: f"+{line}"),
    "diff, removed": _each(lambda line, at: f"-{line}"),
    "mail": _each(lambda line, at: f"> {line}"),
    "comment, #": _each(lambda line, at: f"# {line}"),
    "comment, //": _each(lambda line, at: f"// {line}"),
    "set -x": _each(lambda line, at: f"+ echo '{line}'"),
    "colour": _each(lambda line, at: f"\x1b[32m{line}\x1b[0m"),
    "colour before": _each(lambda line, at: f"\x1b[36mINFO\x1b[0m[{at:04}] {line}"),
    "docker compose": _each(lambda line, at: f"web-1  | {line}"),
    "kubectl logs --prefix": _each(lambda line, at: f"[pod/etcd-0/etcd] {line}"),
    "list of JSON": _each(lambda line, at: f'        "{line}",'),
    "list of YAML": _each(lambda line, at: f'  - "{line}"'),
    "block of YAML": lambda key: b"key: |\n" + textwrap.indent(key.decode(), "    ").encode(),
    "Go": _each(lambda line, at: f'\t"{line}\\n" +'),
    "HTML": _each(lambda line, at: f"{line}<br>"),
    "XML": lambda key: b"<key>" + key + b"</key>",
    "CR LF": lambda key: key.replace(b"\n", b"\r\n"),
}
"""Wrappings that leave a key in lines, as they were."""

DOCUMENTS: Final[Mapping[str, _Wrap]] = {
    "JSON": _in_json(1),
    "JSON in JSON": _in_json(2),
    "JSON in JSON in JSON": _in_json(3),
    "JSON by PHP": lambda key: _in_json(1)(key).replace(b"/", b"\\/"),
    "errorMessage": _entry(""),
    "errorMessage, journal": _entry(_JOURNAL),
    "errorMessage, CRI": _entry("2026-11-21T01:05:10.123456789Z stderr F "),
    "syslog": _replaced(b"#012"),
    "octal": _replaced(b"\\012"),
    "\\x0a": _replaced(b"\\x0a"),
    "&#10;": _replaced(b"&#10;"),
    "&#xA;": _replaced(b"&#xA;"),
    "XML, escaped": lambda key: html.escape(f"<a>{key.decode()}</a>").replace("\n", "&#10;").encode(),
    "one line": lambda key: b"key: " + key.strip().replace(b"\n", b" "),
    "percent": lambda key: b"key=" + urllib.parse.quote(key, safe="").encode(),
    "percent in part": lambda key: b"key=" + urllib.parse.quote(key).encode(),
    "form": lambda key: urllib.parse.urlencode({"key": key}).encode(),
    "data URL": lambda key: b'"source": "data:,' + urllib.parse.quote(key).encode() + b'"',
}
"""Wrappings that escape the ends of its lines."""

ENCODED: Final[Mapping[str, _Wrap]] = {
    "base64": lambda key: b"data: " + base64.b64encode(key),
    "base64, 76 columns": _base64_lines(""),
    "base64, 64 columns, indented": _base64_lines("    ", 64),
    "base64, 76 columns, CRI": _base64_lines("2026-11-21T01:05:10.NUMBERZ stdout F "),
    "base64, 76 columns, journal": _base64_lines(_JOURNAL),
    "base64 twice": lambda key: b"data: " + base64.b64encode(base64.b64encode(key)),
    "base64 of base64 in lines": lambda key: b"data: " + base64.b64encode(base64.encodebytes(key)),
    "base64 of JSON": lambda key: b"data: " + base64.b64encode(_in_json(1)(key)),
    "base64, YAML in JSON": lambda key: json.dumps(
        {"m": f"tls.key: {base64.b64encode(key).decode()}\nx: y"}
    ).encode(),
    "base64url": lambda key: b"data " + base64.urlsafe_b64encode(key),
    "hexadecimal": lambda key: b"dump " + key.hex().encode(),
    "hexadecimal, upper case": lambda key: b"dump " + key.hex().upper().encode(),
    "base64 thrice": lambda key: b"data: " + base64.b64encode(base64.b64encode(base64.b64encode(key))),
    "every byte, \\u": lambda key: "".join(f"\\u{byte:04x}" for byte in key).encode(),
    "every byte, octal": lambda key: "".join(f"\\{byte:03o}" for byte in key).encode(),
    "every byte, &#": lambda key: "".join(f"&#{byte};" for byte in key).encode(),
    "array of JSON": lambda key: json.dumps({"MESSAGE": list(key)}).encode(),
    "array of C": lambda key: ", ".join(f"0x{byte:02x}" for byte in key).encode(),
    "hexadecimal with colons": lambda key: key.hex(":").encode(),
    "gzip in hexadecimal": lambda key: b"dump " + gzip.compress(key).hex().encode(),
    "gzip and base64": lambda key: b"data: " + base64.b64encode(gzip.compress(key)),
    "gzip and base64, 76 columns": lambda key: b"data:\n" + base64.encodebytes(gzip.compress(key)).strip(),
    "gzip, base64, data URL": lambda key: b'"data:;base64,' + base64.b64encode(gzip.compress(key)) + b'"',
    "every byte, \\x": lambda key: "".join(f"\\x{byte:02x}" for byte in key).encode(),
    "every byte, percent": lambda key: "".join(f"%{byte:02X}" for byte in key).encode(),
}
"""Wrappings in which no line of it can be read."""

BYTES: Final[Mapping[str, _Wrap]] = {
    "UTF-16, little-endian": lambda key: key.decode().encode("utf-16-le"),
    "UTF-16, big-endian": lambda key: key.decode().encode("utf-16-be"),
    "UTF-16, CR LF": lambda key: key.decode().replace("\n", "\r\n").encode("utf-16"),
    "UTF-32": lambda key: key.decode().encode("utf-32-le"),
    "xxd": _dumped(lambda at, data: f"{at:08x}: {data.hex(' ', -2):<39}  {_printed(data)}"),
    "xxd -p": _dumped(lambda _, data: data.hex(), 30),
    "hexdump": _dumped(lambda at, data: f"{at:07x} {_words(data)}"),
    "hexdump -C": _dumped(
        lambda at, data: f"{at:08x}  {data[:8].hex(' '):<23}  {data[8:].hex(' '):<23}  |{_printed(data)}|"
    ),
    "hexdump -C, journal": _dumped(
        lambda at, data: f"{_JOURNAL}{at:08x}  {data[:8].hex(' ')}  {data[8:].hex(' ')}  |{_printed(data)}|"
    ),
    "hexdump -C, JSON": lambda key: json.dumps({"errorMessage": BYTES["hexdump -C"](key).decode()}).encode(),
    "od -t x1": _dumped(lambda at, data: f"{at:07o} {data.hex(' ')}"),
}
"""Wrappings in which each of its bytes stands by itself."""

WRAPPINGS: Final[Mapping[str, _Wrap]] = {**LINES, **DOCUMENTS, **ENCODED, **BYTES}

_PIECE: Final = 12
"""Characters; a shorter rest of a key says nothing."""
_CURVES: Final = ("P-256", "P-384", "P-521")
_SECRET_PERCENT: Final[Mapping[str, tuple[int, int]]] = {
    **dict.fromkeys(_CURVES, (32, 45)),
    "Ed25519": (42, 70),
}
"""Percentages of an encoded file that are secret whatever its form; other keys begin behind the modulus."""


def secret_lines(name: str, key: bytes) -> list[bytes]:
    """Return the lines that nobody may read: of an RSA key not the modulus, of a curve one number."""
    body = [line for line in key.split(b"\n") if line and not line.startswith(b"-----") and b":" not in line]
    if name.startswith("RSA"):
        return body[3 * len(body) // 10 + 1 :]
    return body[:1] if name.startswith(_CURVES) else body


_BEFORE: Final = b"the first line of it\n"
_BEHIND: Final = b"\nthe last line of it\n"


def key_leaks(name: str, wrapping: str, rules: Rules) -> bool:
    """Tell whether a wrapped key can be read in part."""
    key = private_keys()[name]
    after = redact(rules, _BEFORE + WRAPPINGS[wrapping](key) + _BEHIND)
    return left_of(name, key, wrapping, after) > 0


def left_of(name: str, key: bytes, wrapping: str, after: bytes) -> int:
    """Return how many pieces of the private part can still be read in a wrapped and redacted key."""
    pieces = list(_pieces(secret_lines(name, key)))
    if wrapping in ENCODED:
        text = ENCODED[wrapping](key)
        lines = [line.split(b" ")[-1] for line in text.split(b"\n")]
        first, last = _SECRET_PERCENT.get(name.partition(",")[0], (35, 85))
        whole = b"\n".join(lines)
        secret = whole[len(whole) * first // 100 : len(whole) * last // 100]
        pieces += _pieces(secret.split(b"\n"), 2 * _PIECE)
    if wrapping in BYTES:
        text = BYTES[wrapping](key).replace(rb"\n", b"\n").replace(_JOURNAL.encode(), b"")
        first, last = _SECRET_PERCENT.get(name.partition(",")[0], (35, 85))
        secret = text[len(text) * first // 100 : len(text) * last // 100]
        pieces += (piece for piece in _pieces(secret.split(b"\n"), 2 * _PIECE) if len(piece) == 2 * _PIECE)
    return sum(piece in after for piece in pieces)


def _pieces(lines: list[bytes], size: int = _PIECE) -> Iterator[bytes]:
    for line in lines:
        for start in range(0, max(1, len(line) - size + 1), 4):
            if len(line) >= 4:  # the unit of base64
                yield line[start : start + size]
