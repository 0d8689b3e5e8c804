"""Styles, script and icon, each at an address that has its digest: browsers keep them for good."""

import hashlib
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.answers import Refusal
from service_record.display.html.style import stylesheet

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages refer to."""

    content: bytes
    media_type: str
    address: str


@cache
def assets() -> dict[str, Asset]:
    """The files by their names. The styles are those of all our pages, and the collector's own after them."""
    contents = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir())}
    contents["pages.css"] = stylesheet().encode() + contents["pages.css"]
    return {name: _asset(name, content) for name, content in contents.items()}


def _asset(name: str, content: bytes) -> Asset:
    stem, suffix = Path(name).stem, Path(name).suffix
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    return Asset(content, _TYPES[suffix], f"/static/{stem}-{digest}{suffix}")


async def get_asset(request: Request) -> Response:
    """`GET /static/{file}`: a file, for anybody."""
    for asset in assets().values():
        if asset.address == request.url.path:
            kept = {
                "Cache-Control": "public, max-age=31536000, immutable",
                "X-Content-Type-Options": "nosniff",
            }
            return Response(asset.content, media_type=asset.media_type, headers=kept)
    raise Refusal(HTTPStatus.NOT_FOUND, "no such file")
