"""The client of a collector, for the verbs that read from it and for `ship`."""

import os
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from service_record.http.address import (
    CA_VARIABLE,
    URL_VARIABLE,
    CollectorError,
    environment_path,
    parse_address,
    read_token,
)
from service_record.http.answers import Answered, RetryPolicy, Unreachable
from service_record.http.attempt import Request
from service_record.http.proxies import Proxies, read_proxies
from service_record.http.transport import Connections, Reply, Transport

T = TypeVar("T")
_SECONDS: Final = 30.0
_TRANSFER_SECONDS: Final = 3600.0
"""Time limit of an upload or a download, such as a bundle over a slow line. Its parts have shorter limits."""
_ENCODE_ERRORS: Final = "surrogateescape"
"""Keeps the bytes of an argument or a variable that are not UTF-8."""
_MAX_REFUSAL_BYTES: Final = 1 << 20
"""Maximum size in bytes of a refusal. The refusal of a batch names each of its streams."""
_MAX_ANSWER_BYTES: Final = 64 << 20
"""Maximum size in bytes of a JSON answer. The answer about a thousand hosts has about 1 MiB."""
_MAX_DOWNLOAD_BYTES: Final = 4 << 30


def connect(
    url: str | None = None,
    *,
    token_file: Path | None = None,
    ca_bundle: Path | None = None,
    seconds: float = _SECONDS,
) -> "CollectorClient":
    """Return a client of the collector at `url`, by default of the one that the environment names.

    The token is read from `token_file`; without it, from the file that the environment names, a credential of
    systemd, or the user's configuration. Raises CollectorError.
    """
    place = url or os.environ.get(URL_VARIABLE, "")
    if not place:
        raise CollectorError(f"no collector: give its URL, or set {URL_VARIABLE}")
    bundle = ca_bundle or environment_path(CA_VARIABLE)
    return CollectorClient(
        parse_address(place).url, read_token(token_file), ca_bundle=bundle, seconds=seconds
    )


class SingleTryClient(Connections):
    """Connections to one server that try each request once. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        secrets: tuple[str, ...],
        *,
        ca_bundle: Path | None = None,
        seconds: float = _SECONDS,
        transfer_seconds: float = _TRANSFER_SECONDS,
        proxies: Proxies | None = None,
    ) -> None:
        """Use the proxies of the environment unless others are given.

        `seconds` limits a request and the answer to an upload, `transfer_seconds` an upload or a download.
        Raises CollectorError for an invalid URL or CA bundle, ModuleNotFoundError without the HTTP library.
        """
        self.url = url
        self._transport = Transport(
            url,
            ca_bundle=ca_bundle,
            proxies=read_proxies(os.environ) if proxies is None else proxies,
            retry_policy=RetryPolicy(
                connect=seconds,
                read=seconds,
                write=seconds,
                total=seconds,
                upload_total=transfer_seconds,
                answer=seconds,
                tries=1,
                upload_tries=1,
            ),
            headers=headers,
            secrets=secrets,
            keeps_connections=True,
        )
        if self._transport.fault is not None:
            raise CollectorError(f"{url}: {self._transport.fault.reason}")


def describe_refusal(outcome: Answered, text: str) -> str:
    """Return the reason of a refusal: the server's text, or the phrase of the status if it sent none."""
    is_standard = outcome.status in set(HTTPStatus)
    return text or (HTTPStatus(outcome.status).phrase if is_standard else "no reason")


class CollectorClient(SingleTryClient):
    """A client of one collector."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_bundle: Path | None = None,
        seconds: float = _SECONDS,
        transfer_seconds: float = _TRANSFER_SECONDS,
        proxies: Proxies | None = None,
    ) -> None:
        try:
            (urlsplit(url).hostname or "").encode("idna")
        except ValueError:
            raise CollectorError(f"{url}: not a valid name of a host; check the URL") from None
        super().__init__(
            url,
            {"Authorization": f"Bearer {token}"},
            (token,),
            ca_bundle=ca_bundle,
            seconds=seconds,
            transfer_seconds=transfer_seconds,
            proxies=proxies,
        )

    def get(self, path: str, kind: type[T], **query: object) -> T:
        """Send a GET request and decode the answer as `kind`.

        Parameters of the query that are None are left out; a list becomes a repeated parameter. Raises
        CollectorError.
        """
        return self._decode(self.send("GET", path, query=query), kind)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes | bytearray:
        """Send a request and return the body of the answer.

        Raises CollectorError, including for a late or truncated answer.
        """
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        question = f"?{urlencode(parameters, doseq=True, errors=_ENCODE_ERRORS)}" if parameters else ""
        headers = {"Content-Type": content_type} if body is not None else {}
        request = Request(
            method=method,
            url=f"{self.url}{path}{question}",
            headers=headers,
            file=body,
            most_body=_MAX_ANSWER_BYTES,
            most_refusal=_MAX_REFUSAL_BYTES,
        )
        return self._check_reply(self._transport.call(request))

    def post(self, path: str, body: msgspec.Struct, kind: type[T]) -> T:
        """Send a document in a POST request and decode the answer as `kind`. Raises CollectorError."""
        return self._decode(self.send("POST", path, body=msgspec.json.encode(body)), kind)

    def _decode(self, body: bytes | bytearray, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CollectorError(
                f"{self.url}: the answer is not that of a collector: {error}; check its URL"
            ) from None

    def download(self, path: str, into: BinaryIO) -> None:
        """Write the body of an answer to a file. Raises CollectorError, or OSError if the disk fails."""
        request = Request(method="GET", url=self.url + path, into=into, most_body=_MAX_DOWNLOAD_BYTES)
        self._check_reply(self._transport.call(request))

    def _check_reply(self, reply: Reply) -> bytes | bytearray:
        """Return the body of a successful answer. Raises CollectorError for any other answer."""
        outcome = reply.outcome
        if isinstance(outcome, Unreachable):
            raise CollectorError(f"{self.url}: {outcome.reason}")
        if outcome.good:
            return reply.body
        reason = describe_refusal(outcome, outcome.text)
        raise CollectorError(f"{self.url}: {outcome.status}: {reason}", outcome.status, bytes(reply.body))


def host_path(host: str, *more: str) -> str:
    """Return the path of a host in a collector's interface: `/api/v1/hosts/NAME/...`."""
    return "/".join(
        ["/api/v1/hosts", *(quote(part, safe="", errors=_ENCODE_ERRORS) for part in (host, *more))]
    )
