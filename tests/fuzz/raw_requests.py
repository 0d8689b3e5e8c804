"""Draw raw requests to a collector: valid, damaged and unusual ones."""

import gzip
import json
from base64 import b64encode
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from hypothesis import strategies as st

from service_record.collector.app import OPERATIONS
from tests.archives import record, tar
from tests.builders import failed_run
from tests.collector.hostile import PAYLOADS
from tests.collector.routes import PARAMETER
from tests.fuzz.corpus import draw_from_corpus
from tests.fuzz.hostile import ARCHIVES
from tests.fuzz.odd_json import odd_json, odd_values
from tests.reporter_builders import ID

_STEP: Final = {
    "name": "Disk setup", "label": "disk_setup", "priority": 3, "status": "failed", "logs": "no disk",
    "percentage": 40.5, "action": "install", "time": "2026-11-21T01:05:10Z", "boot": "b0", "build": "1",
    "group": "dc1/rack2", "release": "4.20",
}  # fmt: skip
_UPDATE: Final = {"name": "web1", "status": "failed", "percentage": "50%", "datacenter_name": "dc1"}
_DATA: Final = b64encode(b"".join(entry.to_line() for entry in failed_run())).decode()
_BATCH: Final = {"pieces": [{"service": "bootkube", "file": "64-abc", "offset": 0, "data": _DATA}]}
_HOST: Final = {
    "group": "dc1", "release": "4.20", "id": ID, "cluster_id": ID, "infra_env_id": ID, "role": "master",
    "bootstrap": True, "single_node": False,
}  # fmt: skip
_TOKEN: Final = {"kind": "enrolment", "scope": "group:dc1", "name": "rack", "expires": "30d"}
_STAGE: Final = {"current_stage": "Rebooting", "progress_info": "words"}
_EVENT: Final = {
    "severity": "info", "category": "user", "name": "x", "message": "m", "host_id": ID, "cluster_id": ID,
    "event_time": "2026-11-21T01:05:10.000Z", "infra_env_id": ID, "props": "{}",
}  # fmt: skip
_BASE: Final = "/api/assisted-install/v2"
_BODIES: Final[list[tuple[str, str, Any]]] = [
    *[("POST", "/api/v1/hosts/web1/steps", _STEP)] * 3,
    ("POST", "/api/update", _UPDATE),
    *[("POST", "/api/v1/hosts/web1/records", _BATCH)] * 3,
    ("PUT", "/api/v1/hosts/web1", _HOST),
    ("POST", "/api/v1/hosts/web1/builds", {"build": "2", "action": "rebuild"}),
    ("POST", "/api/v1/tokens", _TOKEN),
    ("POST", "/api/v1/enrol", {"host": "web1", "group": "dc1"}),
    ("POST", "/login", {"token": "srt_1_x", "next": "/hosts/web1"}),
    ("PUT", f"{_BASE}/infra-envs/{ID}/hosts/{ID}/progress", _STAGE),
    ("PUT", f"{_BASE}/infra-envs/{ID}/hosts/{ID}/logs-progress", {"logs_state": "completed"}),
    ("POST", f"{_BASE}/events", _EVENT),
]
_TYPES: Final = [
    *[b"application/json", b"application/x-www-form-urlencoded"] * 4,
    *(b"multipart/form-data; boundary=b", b"multipart/form-data"),
    *(b"multipart/form-data; boundary=" + b"b" * 99, b"text/plain; charset=utf-16"),
    *(b"application/json; charset=none", b"", b"/", b"\xff", b"application/gzip"),
]
_HEADERS: Final = [
    *(b"Content-Encoding: gzip", b"Content-Encoding: br, gzip", b"Transfer-Encoding: gzip", b"Accept: \xff"),
    *(b"Origin: http://[", b"Origin: http://collector.example", b"Origin: null"),
    *(b"Sec-Fetch-Site: same-origin", b"Cookie: ;;=;a=b; \xff=\xfe; " + b"c=d; " * 3000),
    *(b'Cookie: service-record="\\"', b"Accept: text/html", b"Authorization: Basic Og=="),
    *(b"Authorization: Bearer srt_1_", b"Authorization: Bearer \xff\xfe"),
    *(b"Authorization: Bearer srt_" + b"9" * 5000 + b"_x", b"Authorization: Bearer srt_\xd9\xa3_x"),
    *(b"X-Secret-Key: x", b"If-None-Match: *", b"If-Modified-Since: never", b"Range: bytes=0-0,5-,-9"),
    *(b"Range: bytes=9-0", b"Last-Event-ID: -1", b"Host: ", b"Host: [", b"Host: a\\b"),
    *(b"X-Forwarded-For: ,,", b"Accept-Encoding: x;q=z", b"Expect: 100-continue", b"Connection: upgrade"),
    *(b"Forwarded: for=\xff", b"Sec-Fetch-Site: cross-site"),
]
_SEGMENTS: Final = [
    *(b"web1", b"WEB1", b"1", b"0", b"-1", b"9" * 19, b"9" * 5000, b"1e3", b"%", b"%zz", b"%00", b"%ff"),
    *(b"..", b".", b"", b"%2f", b"%2e%2e%2f", b"a" * 300, b"%D9%A3", b"%C2%B2", b"%ED%A0%80"),
    *(b"%F0%9F%92%A9", b"a%0Ab", b"~", b"a;b", ID.encode(), ID.upper().encode(), b"{host}", b"web1%20"),
    *(b"bootkube", b"%3Cscript%3E"),
]
_QUERIES: Final = [
    *(b"limit", b"offset", b"before", b"group", b"machine", b"verdict", b"all", b"by", b"release", b"sort"),
    *(b"page", b"name", b"status", b"percentage", b"time", b"logs", b"priority", b"host_id", b"logs_type"),
    *(b"role", b"next", b"build", b"step", b"since", b"log", b"", b"%00", b"%ff"),
]
_VALUES: Final = [
    *_SEGMENTS,
    *(b"true", b"stuck", b"host_boot", b"host", b"*" * 90, b"[a-z]*", b"%25_", b"%5C", b"\\", b"NaN", b"inf"),
    *(b"1e400", b"2026-11-21T01:05:10Z", b"0001-01-01", b"9999-12-31T23:59:59%2B23:59"),
    *(b"//evil.example", b"javascript:x"),
]


class Request(NamedTuple):
    """A request after parsing."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


def _templates() -> list[tuple[str, str]]:
    pages = ["/", "/hosts/{host}", "/hosts/{host}/steps/{step}/logs", "/hosts/{host}/analysis", "/statistics"]
    pages += ["/hosts/{host}/bundles/{bundle}", "/login", "/static/{file}", "/{any}/{any}"]
    return [(operation.method, operation.template) for operation in OPERATIONS] + [
        ("GET", page) for page in pages
    ]


@st.composite
def _draw_query(draw: st.DrawFn) -> bytes:
    """Draw a request for any operation with any path segments and any query."""
    method, template = draw(st.sampled_from(_templates()))
    pieces = PARAMETER.split(template)[::3]
    target = pieces[0].encode()
    for piece in pieces[1:]:
        target += draw(st.sampled_from([b"web1", *_SEGMENTS])) + piece.encode()
    rows = draw(st.lists(st.tuples(st.sampled_from(_QUERIES), st.sampled_from(_VALUES)), max_size=4))
    query = b"&".join(name + b"=" + value for name, value in rows)
    return draw(
        _draw_request(method, target + (b"?" + query if query else b""), draw(st.binary(max_size=30)))
    )


@st.composite
def _draw_body(draw: st.DrawFn) -> bytes:
    """Draw a request whose body is valid or nearly valid for its operation."""
    method, target, document = draw(st.sampled_from(_BODIES))
    match draw(st.integers(0, 5)):
        case 0:
            fields = {
                name: draw(odd_values()) if draw(st.booleans()) else value for name, value in document.items()
            }
            body = urlencode(fields, errors="replace").encode()
        case 1:
            body = draw(
                st.sampled_from([b"", b"{", b"[]", b"null", b"\xff", b"&" * 99, b"a=b&" * 99, b"%" * 99])
            )
        case 2 if "name" in document:
            body = json.dumps({**document, "name": draw(st.sampled_from(PAYLOADS))}).encode()
        case _:
            body = draw(odd_json(document))
    if not draw(st.integers(0, 9)):
        body = gzip.compress(body if draw(st.booleans()) else bytes(1 << 20), mtime=0)[
            : draw(st.sampled_from([None, -4]))
        ]
    return draw(_draw_request(method, target.encode(), body))


@st.composite
def _draw_upload(draw: st.DrawFn) -> bytes:
    """Draw an upload form with files."""
    name = draw(st.sampled_from([b"upfile", b"upfile", b"other", b"", b"\xff"]))
    file = draw(
        st.sampled_from([b"log-bundle.tar.gz", b"probe.tar.gz", b"", b"../../x", b'\\"', b"\xff\x00"])
    )
    whole = tar(record("bootkube", *failed_run()))
    data = draw(st.just(whole) | ARCHIVES | st.binary(max_size=99))
    part = b'Content-Disposition: form-data; name="' + name + b'"; filename="' + file + b'"\r\n\r\n' + data
    body = b"".join(b"--b\r\n" + part + b"\r\n" for _ in range(draw(st.integers(0, 3)))) + b"--b--\r\n"
    kind = draw(st.sampled_from([b"host_boot", b"host", b"controller", b"x"]))
    target = f"{_BASE}/clusters/{ID}/logs?host_id={ID}&logs_type=".encode() + kind
    return b"POST " + target + b" HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n" + body


def _draw_request(method: str, target: bytes, body: bytes) -> st.SearchStrategy[bytes]:
    methods = st.sampled_from(
        [*[method] * 9, "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"]
    )
    headers = st.lists(st.sampled_from(_HEADERS), max_size=2)

    def build(drawn_method: str, kind: bytes, more_headers: list[bytes]) -> bytes:
        first = drawn_method.encode() + b" " + target + b" HTTP/1.1"
        return b"\r\n".join([first, b"Content-Type: " + kind, *more_headers, b"", body])

    return st.builds(build, methods, st.sampled_from(_TYPES), headers)


REQUESTS = (
    draw_from_corpus("requests", _draw_query(), _draw_body(), _draw_body(), _draw_upload())
    | _draw_body()
    | _draw_query()
)
"""Requests without a token, most of them well-formed."""


def parse_request(raw: bytes) -> Request:
    """Parse a request as an HTTP parser does, and drop everything that a parser would reject."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *rows = head.split(b"\r\n")
    words = [*first.split(b" "), b"", b"/"][:2]
    method = "".join(filter(str.isalpha, words[0].decode("ascii", "ignore"))) or "GET"
    target = bytes(byte for byte in words[1] if 0x20 < byte < 0x7F)
    fields = (row.partition(b":") for row in rows if b":" in row)
    headers = [
        (name.strip().lower(), bytes(byte for byte in value.strip() if byte >= 0x20 and byte != 0x7F))
        for name, _, value in fields
        if name.strip().replace(b"-", b"").isalnum() and name.strip().lower() != b"content-length"
    ]
    return Request(
        method, b"/" + target.lstrip(b"/"), [*headers, (b"content-length", str(len(body)).encode())], body
    )
