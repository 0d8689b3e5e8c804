"""Draw raw answers of servers: valid, damaged and malicious ones, and those of hotspots and proxies."""

import gzip
import json
import zlib
from typing import Any, Final

from hypothesis import strategies as st

from tests.fuzz.corpus import draw_from_corpus
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


def _compress(body: bytes, form: str) -> bytes:
    match form:
        case "gzip":
            return gzip.compress(body, mtime=0)
        case "deflate":
            return zlib.compress(body)
        case "torn gzip":
            return gzip.compress(body, mtime=0)[:-6]
        case "bomb":
            return gzip.compress(b"[" + bytes(40 << 20), 1, mtime=0)
    return body


def _encode_chunks(body: bytes, form: str) -> bytes:
    size = f"{len(body):x}".encode()
    return {
        "chunked": size + b"\r\n" + body + b"\r\n0\r\n\r\n",
        "torn chunk": f"{len(body) + 7:x}".encode() + b"\r\n" + body,
        "bad chunk": b"zz\r\n" + body + b"\r\n0\r\n\r\n",
        "no last chunk": size + b"\r\n" + body + b"\r\n",
        "huge chunk": b"f" * 40 + b"\r\n" + body,
        "negative chunk": b"-5\r\n" + body + b"\r\n0\r\n\r\n",
    }[form]


_LENGTHS: Final = ["none", "twice", "too much", "too little", "huge", "negative", "no number"]
_CHUNKS: Final = ["chunked", "torn chunk", "bad chunk", "no last chunk", "huge chunk", "negative chunk"]


def _add_framing(body: bytes, form: str) -> tuple[list[bytes], bytes]:
    """Return the headers with the length of the body, and the body in that form."""
    if form in _CHUNKS:
        return [b"Transfer-Encoding: chunked"], _encode_chunks(body, form)
    right = str(len(body)).encode()
    lengths = {
        "right": [right],
        "none": [],
        "twice": [right, b"3"],
        "too much": [str(len(body) + 5).encode()],
        "too little": [str(max(0, len(body) - 5)).encode()],
        "huge": [b"9" * 30],
        "negative": [b"-1"],
        "no number": [b"many"],
    }[form]
    return [b"Content-Length: " + length for length in lengths], body


@st.composite
def _draw_answer(draw: st.DrawFn, documents: tuple[Any, ...]) -> bytes:
    good = st.sampled_from([json.dumps(document).encode() for document in documents])
    body = draw(
        good | odd_json(*documents) | odd_json(*documents) | st.sampled_from(_PAGES) | st.binary(max_size=99)
    )
    status = draw(st.sampled_from(_STATUSES))
    headers: list[bytes] = draw(st.lists(st.sampled_from(_HEADERS), max_size=2))
    if not draw(st.integers(0, 4)):
        retry_after = draw(st.sampled_from(_RETRY_AFTER))
        headers.append(b"Retry-After: " + retry_after.encode())
    if not draw(st.integers(0, 5)):
        form = draw(st.sampled_from([*["gzip", "deflate", "torn gzip", "none"] * 4, "bomb"]))
        body = _compress(body, form)
        name = draw(st.sampled_from([form.rpartition(" ")[2], "gzip", "gzip, gzip", "br", "zstd", "x"]))
        headers.append(b"Content-Encoding: " + name.encode())
    framing, body = _add_framing(body, draw(st.sampled_from(["right"] * 12 + _LENGTHS + _CHUNKS)))
    first = f"HTTP/1.1 {status} Said".encode()
    return b"\r\n".join([first, *headers, *framing, b"", body])


def draw_answers(kind: str, *documents: Any) -> st.SearchStrategy[bytes]:
    """Draw answers with one of these documents, valid or changed, and answers from that corpus."""
    return st.one_of(
        _draw_answer(documents), _draw_answer(documents), draw_from_corpus(kind, _draw_answer(documents))
    )


def format_answer(document: Any, status: int = 200) -> bytes:
    """Return a valid answer. It closes the connection, because a quick client would reuse it while the server
    closes it.
    """
    body = json.dumps(document).encode()
    headers = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
    head = "\r\n".join((f"HTTP/1.1 {status} OK", *headers))
    return f"{head}\r\n\r\n".encode() + body
