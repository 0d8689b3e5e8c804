"""Check in Python what no program of the host reports well: the reachability of services, and the clocks."""

import hashlib
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final
from urllib.parse import SplitResult, quote

from service_record.http.proxies import read_proxies, split_url
from service_record.reporter.gather import files
from service_record.reporter.gather.model import Context, GatherError, GatherStatus, Pieces, Task
from service_record.reporter.gather.network import Question

_STEP_SECONDS: Final = 5.0
"""The time limit of each step: name, connection, TLS and HTTP."""
_MAX_WAIT_SECONDS: Final = _STEP_SECONDS + 1  # for steps that may ignore their own limit
_MAX_ADDRESSES: Final = 4
_PORTS: Final = {"http": 80, "https": 443}
_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;="
"""Characters that a path may contain unencoded, in addition to those that `quote` keeps; see RFC 3986, 3.3.
The percent sign is one of them: it begins an encoded character.
"""
_RTC: Final = "/sys/class/rtc/rtc0/since_epoch"


def reachability(task: Task) -> Pieces:
    """Yield for each service its addresses and the results of connecting, TLS and a GET without credentials.

    Raises GatherError with the status absent if no service is known.
    """
    if not task.context.urls:
        raise GatherError(GatherStatus.ABSENT, "no service is known whose reachability could be checked")
    for url in task.context.urls:
        for line in _check_url(url, task):
            yield f"{line}\n".encode(errors="backslashreplace")


def _check_url(url: str, task: Task) -> Iterator[str]:
    parts = split_url(url)
    if parts is None:
        yield "not a URL of http or https with a host"
        return
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    yield f"{parts.scheme}://{host}:{port}"
    yield from _check_proxy(parts.scheme, task.context)
    connection, lines = _connect(host, port)
    yield from lines
    if connection is not None:
        yield from _check_tls_and_http(connection, parts, host, task.context)


def _check_proxy(scheme: str, context: Context) -> Iterator[str]:
    """Yield the result of connecting to the proxy for this scheme, if the environment has one."""
    proxies = read_proxies(context.environ)
    named = proxies.https if scheme == "https" else proxies.http
    if not named:
        return
    proxy = split_url(named if "://" in named else f"http://{named}")
    if proxy is None:
        yield "  proxy    the setting is not a URL"
        return
    host, port = proxy.hostname or "", proxy.port or _PORTS["http"]
    yield f"  proxy    {host}:{port}, but not for {','.join(proxies.no_proxy) or 'no host'}"
    connection, lines = _connect(host, port)
    yield from (f"  {line}" for line in lines)
    if connection is not None:
        connection.close()
    yield "  past the proxy:"


def _connect(host: str, port: int) -> tuple[socket.socket | None, list[str]]:
    """Return a connection to the first address that accepts one, or None; and a line for each step."""
    began = time.monotonic()
    try:
        addresses = Question(lambda: _resolve(host, port)).answer(_MAX_WAIT_SECONDS)
    except OSError as error:
        return None, [f"  name     {_reason(error)}{_elapsed(began)}"]
    except ValueError as error:  # from the codec for host names: a part is empty or too long
        return None, [f"  name     not resolvable: {error}{_elapsed(began)}"]
    lines = [f"  name     {', '.join(addresses)}{_elapsed(began)}"]
    for address in addresses[:_MAX_ADDRESSES]:
        began = time.monotonic()
        try:
            connection = socket.create_connection((address, port), _STEP_SECONDS)
        except OSError as error:
            lines.append(f"  connect  {address}: {_reason(error)}{_elapsed(began)}")
            continue
        return connection, [*lines, f"  connect  {address}: connected{_elapsed(began)}"]
    return None, lines


def _resolve(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


def _check_tls_and_http(
    connection: socket.socket, parts: SplitResult, host: str, context: Context
) -> Iterator[str]:
    """Yield the results of TLS, if the scheme is https, and of the GET. Close the connection."""
    path = quote(parts.path or "/", safe=_PATH_CHARACTERS, errors="replace")
    with connection:
        began = time.monotonic()
        try:
            if parts.scheme == "https":
                connection, trust = Question(lambda: _start_tls(connection, host, context)).answer(
                    _MAX_WAIT_SECONDS
                )
                yield f"  tls      {trust}{_elapsed(began)}"
            began = time.monotonic()
            answer = Question(lambda: _get(connection, parts, path)).answer(_MAX_WAIT_SECONDS)
        except (OSError, ValueError, HTTPException) as error:  # such as a name that TLS refuses
            yield f"  failed   {_reason(error)}{_elapsed(began)}"
            return
        finally:
            connection.close()
        yield f"  http     GET {path}: {answer.status}{_elapsed(began)}"
        yield from _compare_clocks(answer)


def _start_tls(connection: socket.socket, host: str, context: Context) -> tuple[socket.socket, str]:
    """Return a TLS connection, and text about its version and certificate.

    If the certificate is not trusted, a second connection is made without verification, to read it.
    """
    peer = connection.getpeername()[:2]
    trusting = ssl.create_default_context()
    if context.ca_bundle is not None:
        trusting.load_verify_locations(context.ca_bundle)
    try:
        trusted = trusting.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        distrust = f"not trusted: {error.verify_message}"
    else:
        certificate = trusted.getpeercert() or {}
        return trusted, f"{trusted.version()}, trusted, valid until {certificate.get('notAfter')}"
    anybody = ssl.create_default_context()
    # Not verifying is safe here: the GET carries no credentials.
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    again = socket.create_connection(peer, _STEP_SECONDS)
    encrypted = anybody.wrap_socket(again, server_hostname=host)
    digest = hashlib.sha256(encrypted.getpeercert(binary_form=True) or b"").hexdigest()
    return encrypted, f"{encrypted.version()}, {distrust}; SHA-256 of the certificate {digest}"


def _get(connection: socket.socket, parts: SplitResult, path: str) -> HTTPResponse:
    http = HTTPConnection(parts.hostname or "", parts.port, timeout=_STEP_SECONDS)
    http.sock = connection
    http.request("GET", path, headers={"User-Agent": "service-record", "Connection": "close"})
    return http.getresponse()


def _compare_clocks(answer: HTTPResponse) -> Iterator[str]:
    """Yield the difference between this host's clock and the Date header, in seconds."""
    with suppress(TypeError, ValueError):
        theirs = parsedate_to_datetime(answer.headers["Date"])
        ahead = round((datetime.now(UTC) - theirs).total_seconds())
        yield f"  clock    {abs(ahead)} s {'ahead of' if ahead >= 0 else 'behind'} the server's"


def clocks(task: Task) -> Pieces:
    """Yield the time of the system clock and the hardware clock, and the uptime."""
    now = time.time()
    yield f"system   {datetime.fromtimestamp(now, UTC).isoformat(timespec='milliseconds')}\n".encode()
    with suppress(OSError, ValueError):
        hardware = int(files.resolve_in_root(task.context.root, _RTC).read_text())
        moment = datetime.fromtimestamp(hardware, UTC).isoformat()
        yield f"hardware {moment} (the system is {now - hardware:.0f} s ahead)\n".encode()
    yield f"uptime   {time.clock_gettime(time.CLOCK_BOOTTIME):.2f} s\n".encode()


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _elapsed(began: float) -> str:
    return f" ({time.monotonic() - began:.3f} s)"
