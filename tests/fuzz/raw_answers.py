"""Answers of servers, as bytes: good ones, damaged ones, and what hotspots, proxies and the hostile say."""

import gzip
import json
import zlib
from typing import Any, Final

from hypothesis import strategies as st

from tests.fuzz.corpus import grown
from tests.fuzz.odd_json import odd_json

_STATUSES: Final = [
    *[200] * 8,
    *(201, 204, 206, 299, 301, 302, 307, 304, 400, 401, 403, 404, 408, 409, 410, 413, 422, 425, 429),
    *(500, 501, 502, 503, 507, 511, 100, 101, 103, 600, 999, 0, -1, "2x0", ""),
]
_HEADERS: Final = [
    *(b"Content-Type: application/json", b"Content-Type: text/html; charset=none", b"Content-Type: \xff"),
    *(b"Location: http://127.0.0.1:1/", b"Location: //", b"Location: \x00", b"Location: file:///etc/passwd"),
    *(b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: h2c", b"Set-Cookie: a=b; Domain=.com"),
    *(b"WWW-Authenticate: Negotiate", b"X: " + b"y" * 70_000, b": nameless", b"A B: c", b"folded: a\r\n b"),
    *(b"Date: Sat, 21 Nov 2026 01:05:10 GMT", b"Date: never", b"Date: Sat, 99 Nov 99999 01:05:10 GMT"),
    *(b"Trailer: X", b"\xff\xfe: x", b"no colon", b"X: a\x00b", b'Alt-Svc: h3=":443"'),
]
_RETRY_AFTER: Final = [
    *("0", "-1", "0.01", "1e9", "9" * 5000, "soon", "", " ", "nan", "inf", "0x10", "\u0663", "\ufffd"),
    *("Sat, 21 Nov 2020 01:05:10 GMT", "Sat, 21 Nov 1 01:05:10", "Fri, 31 Dec 9999 23:59:59 -2359"),
    *("Sat, 21 Nov 20260000000 01:05:10 GMT", "2026-11-21T01:05:10Z"),
]
_PAGES: Final = [
    *(b"", b"\0", b"\xff\xfe\xfd", b"null", b"[]", b"{}", b"0", b'""', b"[" * 100_000, b"NaN"),
    *(b"\xef\xbb\xbf[]", b"<html><title>Log in</title><body>Hotspot</body></html>"),
    *(b"<!doctype html>" + b"<p>" * 50_000, b"<title>" * 5000, b"<script>" * 5000, b"<!--" * 20_000),
    *(b"&#x110000;&#0;&#xd800;", b'{"reason": 5}', b'{"detail": "a\\nb\\u001b[2J\\ud800"}'),
    *(b'{"message": ' + b"[" * 5000, b"x" * 300_000),
]


def _packed(body: bytes, how: str) -> bytes:
    match how:
        case "gzip":
            return gzip.compress(body, mtime=0)
        case "deflate":
            return zlib.compress(body)
        case "torn gzip":
            return gzip.compress(body, mtime=0)[:-6]
        case "bomb":
            return gzip.compress(b"[" + bytes(40 << 20), 1, mtime=0)
    return body


def _chunked(body: bytes, how: str) -> bytes:
    size = f"{len(body):x}".encode()
    return {
        "chunked": size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        "torn chunk": f"{len(body) + 7:x}".encode() + b"\r\n" + body,
        "bad chunk": b"zz\r\n" + body + b"\r\n0\r\n\r\n",
        "no last chunk": size + b"\r\n" + body + b"\r\n",
        "huge chunk": b"f" * 40 + b"\r\n" + body,
        "negative chunk": b"-5\r\n" + body + b"\r\n0\r\n\r\n",
    }[how]


_LENGTHS: Final = ["none", "twice", "too much", "too little", "huge", "negative", "no number"]
_CHUNKS: Final = ["chunked", "torn chunk", "bad chunk", "no last chunk", "huge chunk", "negative chunk"]


def _framed(body: bytes, how: str) -> tuple[list[bytes], bytes]:
    """Headers that say how long the body is, and the body in that form."""
    if how in _CHUNKS:
        return [b"Transfer-Encoding: chunked"], _chunked(body, how)
    right = str(len(body)).encode()
    said = {
        "right": [right],
        "none": [],
        "twice": [right, b"3"],
        "too much": [str(len(body) + 5).encode()],
        "too little": [str(max(0, len(body) - 5)).encode()],
        "huge": [b"9" * 30],
        "negative": [b"-1"],
        "no number": [b"many"],
    }[how]
    return [b"Content-Length: " + one for one in said], body


@st.composite
def _answers(draw: st.DrawFn, documents: tuple[Any, ...]) -> bytes:
    good = st.sampled_from([json.dumps(document).encode() for document in documents])
    body = draw(
        good | odd_json(*documents) | odd_json(*documents) | st.sampled_from(_PAGES) | st.binary(max_size=99)
    )
    status = draw(st.sampled_from(_STATUSES))
    headers: list[bytes] = draw(st.lists(st.sampled_from(_HEADERS), max_size=2))
    if not draw(st.integers(0, 4)):
        said = draw(st.sampled_from(_RETRY_AFTER))
        headers.append(b"Retry-After: " + said.encode())
    if not draw(st.integers(0, 5)):
        how = draw(st.sampled_from([*["gzip", "deflate", "torn gzip", "none"] * 4, "bomb"]))
        body = _packed(body, how)
        name = draw(st.sampled_from([how.rpartition(" ")[2], "gzip", "gzip, gzip", "br", "zstd", "x"]))
        headers.append(b"Content-Encoding: " + name.encode())
    framing, body = _framed(body, draw(st.sampled_from(["right"] * 12 + _LENGTHS + _CHUNKS)))
    first = f"HTTP/1.1 {status} Said".encode()
    return b"\r\n".join([first, *headers, *framing, b"", body])


def answers(kind: str, *documents: Any) -> st.SearchStrategy[bytes]:
    """Answers of which some hold one of these documents, or nearly; the corpus of that kind among them."""
    return st.one_of(_answers(documents), _answers(documents), grown(kind, _answers(documents)))


def whole(document: Any, status: int = 200) -> bytes:
    """An answer that is as it should be: it says that the server hangs up, or a quick one asks it again."""
    body = json.dumps(document).encode()
    said = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
    head = "\r\n".join((f"HTTP/1.1 {status} OK", *said))
    return f"{head}\r\n\r\n".encode() + body
