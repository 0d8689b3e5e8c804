"""Check the network of a host: the reachability of services, and the names that a cluster needs."""

import hashlib
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final, TypeVar
from urllib.parse import SplitResult, quote

from service_record.http.proxies import read_proxies, split_url
from service_record.reporter.gather.gathering import (
    Context,
    GatherError,
    GatherStatus,
    Pieces,
    Task,
    resolve_in_root,
)
from service_record.reporter.gather.sources import open_file

_Value = TypeVar("_Value")


def run_in_thread(function: Callable[[], _Value]) -> Future[_Value]:
    """Call the function in a daemon thread of its own. Give `result()` a timeout: a late thread is abandoned.

    The resolver, a dead disk and TLS with a slow peer have no usable time limit of their own. Do not use an
    executor: at its end, the process would wait for its threads.
    """
    future: Future[_Value] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except Exception as error:  # noqa: BLE001  # raised again by result()
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


_STEP_SECONDS: Final = 5.0
"""The time limit of each step: name, connection, TLS and HTTP."""
_MAX_WAIT_SECONDS: Final = _STEP_SECONDS + 1  # for steps that may ignore their own limit
_MAX_ADDRESSES: Final = 4
_PORTS: Final = {"http": 80, "https": 443}
_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;="
"""Characters that a path may contain unencoded, in addition to those that `quote` keeps; see RFC 3986, 3.3.
The percent sign is one of them: it begins an encoded character.
"""


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
        addresses = run_in_thread(lambda: _resolve(host, port)).result(_MAX_WAIT_SECONDS)
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
                connection, trust = run_in_thread(lambda: _start_tls(connection, host, context)).result(
                    _MAX_WAIT_SECONDS
                )
                yield f"  tls      {trust}{_elapsed(began)}"
            began = time.monotonic()
            answer = run_in_thread(lambda: _get(connection, parts, path)).result(_MAX_WAIT_SECONDS)
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


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):  # from result()
        return "no answer in time"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _elapsed(began: float) -> str:
    return f" ({time.monotonic() - began:.3f} s)"


NAMES_SECONDS: Final = 1.0
"""The time limit of all names together. They are resolved in parallel."""
_KUBECONFIGS: Final = (
    "/etc/kubernetes/kubeconfig",
    "/var/lib/kubelet/kubeconfig",
    "/opt/openshift/auth/kubeconfig",
    "/etc/ignition-machine-config-encapsulated.json",
)
"""Files with the URL of the API. The last is the pointer ignition, whose URL has the port 22623."""
_MAX_FILE_BYTES: Final = 1 << 20
_DOMAIN_PATTERN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
_API_URL: Final = re.compile(rf"https://api(?:-int)?\.({_DOMAIN_PATTERN}):(?:6443|22623)(?![0-9])")
"""The URL of an API server or a machine-config server. The port excludes public ones: api.openshift.com."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result of resolving one name."""

    name: str
    addresses: tuple[str, ...] = ()
    problem: str | None = None
    """The reason why there is no address, or None."""
    is_answered: bool = True
    """False if the resolver gave no answer in time. The name may exist."""
    seconds: float = 0.0


def names_of_cluster(domain: str) -> tuple[str, str, str]:
    """Return the host names that a cluster of this domain needs. The last one tests `*.apps`."""
    return f"api.{domain}", f"api-int.{domain}", f"console-openshift-console.apps.{domain}"


def resolve(names: Iterable[str], seconds: float = NAMES_SECONDS) -> tuple[Resolution, ...]:
    """Resolve all names in parallel with the system's resolver, within `seconds`. Nothing is retried."""
    until = time.monotonic() + seconds
    answers = [(name, run_in_thread(partial(_resolve_name, name))) for name in names]
    resolutions = []
    for name, answer in answers:
        try:
            resolutions.append(answer.result(until - time.monotonic()))
        except TimeoutError:
            late = f"no answer within {seconds:g} s"
            resolutions.append(Resolution(name, problem=late, is_answered=False, seconds=seconds))
    return tuple(resolutions)


def _resolve_name(name: str) -> Resolution:
    began = time.monotonic()
    try:
        rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        problem = str(getattr(error, "strerror", None) or error)
        is_answered = getattr(error, "errno", None) != socket.EAI_AGAIN
        return Resolution(name, (), problem, is_answered, time.monotonic() - began)
    addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in rows))
    return Resolution(name, addresses, seconds=time.monotonic() - began)


def cluster_names(task: Task) -> Pieces:
    """Yield the addresses of the api, api-int and apps names, for each cluster domain in this host's files.

    Raises GatherError with the status absent if there is no cluster domain.
    """
    domains = cluster_domains(task.context)
    if not domains:
        raise GatherError(
            GatherStatus.ABSENT, "no cluster domain is known: no API in the settings or a kubeconfig"
        )
    names = [name for domain in domains for name in names_of_cluster(domain)]
    for answer in resolve(names):
        outcome = answer.problem or ", ".join(answer.addresses)
        yield f"{answer.name}  {outcome} ({answer.seconds:.3f} s)\n".encode(errors="backslashreplace")


def cluster_domains(context: Context) -> tuple[str, ...]:
    """Return at most two cluster domains, from URLs in the settings, kubeconfigs and the pointer ignition."""
    texts = list(context.urls)
    for path in _KUBECONFIGS:
        with (
            suppress(GatherError),
            os.fdopen(open_file(resolve_in_root(context.root, path)), "rb") as stream,
        ):
            texts.append(stream.read(_MAX_FILE_BYTES).decode(errors="replace"))
    return tuple(dict.fromkeys(domain.lower() for text in texts for domain in _API_URL.findall(text)))[:2]
