"""Asks a collector, and says what it answers or why it did not. For readers, and for `ship`.

An answer has a time by which it must be complete: a slow trickle of bytes never meets a time-out.
"""

import os
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

import orjson

from service_record.client.address import (
    CA_VARIABLE,
    URL_VARIABLE,
    CollectorError,
    address_of,
    environment_path,
    read_token,
)
from service_record.http.trust import system_trust
from service_record.version import __version__

if TYPE_CHECKING:
    import httpx2


_IS_CONNECTED: Final = (".connect_tcp.complete", ".start_tls.complete")
_IS_SENT: Final = ".send_request_body.complete"


class AnswerLimit:
    """A context manager for one request at a time, which is told by httpx2's trace how far it is.

    How long the request may take to be sent is not its matter: a slow line may take long for it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.is_over = False
        """Whether the answer was ended."""
        self._is_meant = False
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        self.is_over, self._is_meant = False, True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_meant = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def traced(self, name: str, info: Mapping[str, Any]) -> None:
        """What the library has done; for its extension `trace`."""
        if name.endswith(_IS_CONNECTED):
            self._socket = info["return_value"].get_extra_info("socket")
        elif name.endswith(_IS_SENT) and self._is_meant:
            self._timer = threading.Timer(self.seconds, self._end)
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):
                # Not the method of a TLS socket: that one would pull the session from under the reader.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


_SECONDS: Final = 30.0
_AS_IT_CAME: Final = "surrogateescape"
"""The bytes of an argument or a variable, which need not be UTF-8."""
_MOST_REFUSAL: Final = 1 << 20
"""Bytes of a refusal: one of a batch names each of its streams."""
_LONGEST_REASON: Final = 2048
_MOST_ANSWER: Final = 64 << 20
"""Bytes of what a collector may say at once, as JSON; of a thousand hosts it is one."""


def connect(
    url: str | None = None, *, token_file: Path | None = None, ca_bundle: Path | None = None
) -> "CollectorClient":
    """A client of the collector at this URL, by default of that in the environment.

    The token is in a file: this one, or that of the environment, systemd's credential or a person's
    configuration. Raises CollectorError.
    """
    place = url or os.environ.get(URL_VARIABLE, "")
    if not place:
        raise CollectorError(f"no collector: give its URL, or set {URL_VARIABLE}")
    bundle = ca_bundle or environment_path(CA_VARIABLE)
    return CollectorClient(address_of(place).url, read_token(token_file), ca_bundle=bundle)


class CollectorClient:
    """Connections to one collector. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_bundle: Path | None = None,
        seconds: float = _SECONDS,
        proxy: str | None = None,
    ) -> None:
        """`proxy` is the URL of the one to go through, empty for none; unless it is given, the environment
        says. Raises CollectorError when the URL or the CA bundle is none, ModuleNotFoundError when what
        speaks HTTP is not installed.
        """
        import httpx2  # noqa: PLC0415  # an extra

        try:
            (urlsplit(url).hostname or "").encode("idna")
            httpx2.URL(url)
        except (ValueError, httpx2.InvalidURL):
            raise CollectorError(f"{url}: no host can be called that") from None
        self.url = url
        self._limit = AnswerLimit(seconds)
        trust = _trust(ca_bundle)
        self._client: httpx2.Client = httpx2.Client(
            verify=trust,
            proxy=httpx2.Proxy(proxy, ssl_context=_trust_in_proxy(proxy, trust)) if proxy else None,
            trust_env=proxy is None,
            headers={"Authorization": f"Bearer {token}", "User-Agent": f"service-record/{__version__}"},
            timeout=seconds,
            follow_redirects=False,  # the token goes where it was meant to go, or nowhere
        )

    def get(self, path: str, **query: object) -> Any:
        """What the JSON of an answer says; members of the query that are None are left out, lists are
        repeated. Raises CollectorError.
        """
        return self.send("GET", path, query=query)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """What the JSON of an answer to any request says; None where it says nothing. Raises
        CollectorError, also where the answer is not whole in time.
        """
        headers = {"Content-Type": content_type} if body is not None else {}
        with self._limit, self._answer(method, path, query or {}, body, headers) as answer:
            text = bytearray()
            for piece in answer.iter_bytes():
                text += piece
                if len(text) > _MOST_ANSWER:
                    raise CollectorError(f"{self.url}: answered with more than {_MOST_ANSWER:,} bytes")
        try:
            return orjson.loads(text) if text else None
        except ValueError:
            raise CollectorError(f"{self.url}: answered with something else than JSON") from None

    @contextmanager
    def stream(self, path: str, **query: object) -> Iterator[Iterable[bytes]]:
        """The bytes of an answer as they come. Raises CollectorError, also while they do."""
        with self._answer("GET", path, query, None, {}) as answer:
            yield self._pieces(answer)

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> "Iterator[httpx2.Response]":
        import httpx2  # noqa: PLC0415  # as above

        said = {name: value for name, value in query.items() if value is not None}
        url = self.url + path + (f"?{urlencode(said, doseq=True, errors=_AS_IT_CAME)}" if said else "")
        try:
            extensions = {"trace": self._limit.traced}
            with self._client.stream(
                method, url, content=body, headers=headers, extensions=extensions
            ) as answer:
                if not answer.is_success:
                    raise self._refusal(answer)
                yield answer
        except (httpx2.HTTPError, httpx2.InvalidURL) as fault:
            raise self._unreachable(fault) from None

    def _pieces(self, answer: "httpx2.Response") -> Iterator[bytes]:
        import httpx2  # noqa: PLC0415  # as above

        try:
            yield from answer.iter_bytes()
        except httpx2.HTTPError as fault:
            raise self._unreachable(fault) from None

    def _unreachable(self, fault: Exception) -> CollectorError:
        if self._limit.is_over:
            return CollectorError(f"{self.url}: no whole answer within {self._limit.seconds:g} s")
        return CollectorError(f"{self.url}: {str(fault).strip() or type(fault).__name__}")

    def _refusal(self, answer: "httpx2.Response") -> CollectorError:
        """What a collector refuses with, its own reason first."""
        body = b""
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _MOST_REFUSAL:
                break
        status = answer.status_code
        try:
            said = orjson.loads(body)["detail"]
        except (ValueError, KeyError, TypeError):
            said = HTTPStatus(status).phrase if status in set(HTTPStatus) else "no reason"
        return CollectorError(f"{self.url}: {status}: {str(said)[:_LONGEST_REASON]}", status, body)


def host_path(host: str, *more: str) -> str:
    """Where a collector has what it knows of a host: `/api/v1/hosts/NAME/...`."""
    return "/".join(["/api/v1/hosts", *(quote(part, safe="", errors=_AS_IT_CAME) for part in (host, *more))])


def _trust(ca_bundle: Path | None) -> ssl.SSLContext:
    context = system_trust()
    if ca_bundle is not None:
        try:
            context.load_verify_locations(cafile=ca_bundle)
        except OSError as fault:  # also what is no certificate
            raise CollectorError(f"{ca_bundle}: {fault.strerror or 'no certificates in PEM form'}") from None
    return context


def _trust_in_proxy(proxy: str, trust: ssl.SSLContext) -> ssl.SSLContext | None:
    """None where TLS is not spoken to the proxy itself."""
    return trust if urlsplit(proxy).scheme == "https" else None
