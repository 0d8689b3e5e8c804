"""Ask a registry for a release image, with the pull secret, as a puller would. No layer is fetched."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urljoin

from service_record.http.answers import RetryPolicy, Unreachable
from service_record.http.proxies import proxies_of
from service_record.preflight.checks import CheckResult, CheckState, not_checked

if TYPE_CHECKING:
    from service_record.http.transport import Reply

_SECONDS: Final = 8.0
"""The time limit of each of three requests."""
_MOST_BYTES: Final = 1 << 20
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTIONS: Final = 3
_REFUSALS: Final = {
    HTTPStatus.UNAUTHORIZED: "The pull secret is wrong or has expired: download it again.",
    403: "The account of the pull secret may not pull it.",
    404: "See the name and tag, or whether the mirror has it.",
}
_MANIFESTS: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_IMAGE: Final = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::\d+)?|\[[0-9a-f:]+\](?::\d+)?)/(?P<name>[a-z0-9._/-]+?)"
    r"(?::(?P<tag>[\w.-]{1,128}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LOOPBACK: Final = re.compile(r"127(\.\d{1,3}){3}(:\d+)?")
"""Without a CA bundle such a registry is asked without TLS, as podman does when it may."""
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Image:
    """The place of an image."""

    host: str
    name: str
    reference: str
    """A tag or a digest."""


def read_image(text: str) -> Image:
    """Read `HOST[:PORT]/NAME[:TAG][@DIGEST]`. Raises ValueError."""
    match = _IMAGE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a valid image; use HOST/NAME:TAG or HOST/NAME@sha256:DIGEST")
    return Image(match["host"], match["name"], match["digest"] or match["tag"] or "latest")


def read_pull_secret(path: Path) -> Mapping[str, str]:
    """Read the credentials of a pull secret, base64 by registry. Raises OSError and ValueError."""
    try:
        auths = json.loads(path.read_bytes())["auths"]
        return {place: str(entry["auth"]) for place, entry in auths.items() if "auth" in entry}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: not a pull secret; expected JSON with 'auths'") from None


def credentials_for(image: Image, auths: Mapping[str, str]) -> str | None:
    """Return the credentials of the longest place that the image is within; see containers-auth.json(5)."""
    places = {re.sub(r"^https?://|/v[12]/?$|/$", "", place): auth for place, auth in auths.items()}
    path: str = f"{image.host}/{image.name}"
    while path:
        if path in places:
            return places[path]
        path = path.rpartition("/")[0]
    return None


def check_registry(
    image: Image, pull_secret: Path | None, ca_bundle: Path | None
) -> tuple[CheckResult, CheckResult]:
    """Check that the registry answers, and that it has the image for who has the pull secret."""
    try:
        registry = _Registry(image, ca_bundle)
        challenge = registry.challenge()
    except RegistryError as error:
        unreached = not_checked("release image", "the registry was not reached")
        if error.has_no_network:
            return not_checked("registry", f"{image.host}: {error}", "Give this host a network."), unreached
        reached = CheckResult(
            "registry",
            CheckState.FAILED,
            f"{image.host}: {error}",
            "See whether this host reaches it, through a proxy if one is set, and trusts its certificate "
            "(--ca-bundle FILE).",
        )
        return reached, unreached
    answered = CheckResult("registry", CheckState.PASSED, f"{image.host} answers")
    if pull_secret is None:
        return answered, not_checked("release image", "no pull secret", "Name it: --pull-secret FILE.")
    try:
        auths = read_pull_secret(pull_secret)
    except OSError as error:
        advice = "Run it as root." if isinstance(error, PermissionError) else "Name the right file."
        return answered, not_checked("release image", f"{pull_secret}: {error.strerror}", advice)
    except ValueError as error:
        advice = "Download it again from console.redhat.com."
        return answered, CheckResult("release image", CheckState.FAILED, str(error), advice)
    return answered, _check_image(registry, challenge, credentials_for(image, auths))


def _check_image(registry: "_Registry", challenge: str | None, credentials: str | None) -> CheckResult:
    image = registry.image
    where = f"{image.host}/{image.name}, {image.reference}"
    if challenge is not None and credentials is None:
        advice = "Add the registry to the pull secret."
        return CheckResult(
            "release image", CheckState.FAILED, f"the pull secret has nothing for {image.host}", advice
        )
    try:
        status = registry.manifest_status(challenge, credentials)
    except RegistryError as error:
        return not_checked("release image", f"{where}: {error}", "Try again.")
    if status == HTTPStatus.OK:
        return CheckResult(
            "release image", CheckState.PASSED, f"{where}: there, and the pull secret is good for it"
        )
    if status not in _REFUSALS:
        return not_checked("release image", f"{where}: the registry answered {status}", "Try again.")
    detail = f"{where}: the registry answered {status}"
    return CheckResult("release image", CheckState.FAILED, detail, _REFUSALS[status])


class RegistryError(Exception):
    """The reason why a registry or its token server gave no usable answer, in one line."""

    def __init__(self, reason: str, *, has_no_network: bool = False) -> None:
        super().__init__(reason)
        self.has_no_network = has_no_network


class _Registry:
    """A registry's HTTP API; see the OCI distribution specification, and for tokens that of Docker."""

    def __init__(self, image: Image, ca_bundle: Path | None) -> None:
        self.image = image
        is_plain = ca_bundle is None and _LOOPBACK.fullmatch(image.host)
        self._scheme = "http" if is_plain else "https"
        self._ca_bundle = ca_bundle

    def challenge(self) -> str | None:
        """Return how the registry wants to be asked; None when anybody may. Raises RegistryError."""
        status, reply = self._ask(f"{self._scheme}://{self.image.host}/v2/")
        if status == HTTPStatus.OK:
            return None
        challenge = reply.headers.get("www-authenticate")
        if status == HTTPStatus.UNAUTHORIZED and challenge:
            return challenge
        raise RegistryError(f"it answered {status} at /v2/, which no registry does")

    def manifest_status(self, challenge: str | None, credentials: str | None) -> int:
        """Return the status for the image's manifest, with a token where the challenge wants one."""
        authorization = f"Basic {credentials}" if challenge is not None and credentials else None
        if challenge is not None and credentials and challenge.lower().startswith("bearer "):
            status, token = self._token(challenge, credentials)
            if not token:
                return status
            authorization = f"Bearer {token}"
        url = f"{self._scheme}://{self.image.host}/v2/{self.image.name}/manifests/{self.image.reference}"
        return self._ask(url, authorization, method="HEAD")[0]

    def _token(self, challenge: str, credentials: str) -> tuple[int, str | None]:
        parameters = dict(_PARAMETER.findall(challenge))
        realm = parameters.get("realm", "")
        if not realm.startswith(f"{self._scheme}://"):
            raise RegistryError(f"its token server is not of {self._scheme}")
        query = {"scope": f"repository:{self.image.name}:pull"}
        if "service" in parameters:
            query["service"] = parameters["service"]
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        status, reply = self._ask(url, f"Basic {credentials}")
        if status != HTTPStatus.OK:
            return status, None
        token = _token_in(reply.body)
        if token is None:
            raise RegistryError("its token server gave no token")
        return status, token

    def _ask(self, url: str, authorization: str | None = None, method: str = "GET") -> "tuple[int, Reply]":
        """Return the status and the reply. Redirections are followed, without the credentials."""
        accept = {"Accept": _MANIFESTS if method == "HEAD" else "*/*"}
        headers = accept | ({"Authorization": authorization} if authorization is not None else {})
        for _ in range(_MOST_REDIRECTIONS):
            status, reply = self._ask_once(method, url, headers)
            location = reply.headers.get("location")
            if status not in _REDIRECTIONS or not location:
                return status, reply
            url, headers = urljoin(url, location), accept
            if not url.startswith(f"{self._scheme}://"):
                raise RegistryError(f"it leads to a server that is not of {self._scheme}")
        raise RegistryError("it leads from one server to the next")

    def _ask_once(self, method: str, url: str, headers: Mapping[str, str]) -> "tuple[int, Reply]":
        from service_record.http.attempt import Request  # an extra
        from service_record.http.transport import Transport

        transport = Transport(
            url,
            ca_bundle=self._ca_bundle,
            proxies=proxies_of(os.environ),
            retry_policy=RetryPolicy(connect=_SECONDS, read=_SECONDS, total=_SECONDS, tries=1),
            secrets=(headers.get("Authorization", "").partition(" ")[2],),
        )
        try:
            reply = transport.call(Request(method=method, url=url, headers=headers, most_body=_MOST_BYTES))
        finally:
            transport.close()
        if isinstance(reply.outcome, Unreachable):
            raise RegistryError(reply.outcome.reason, has_no_network=reply.outcome.has_no_network)
        return reply.outcome.status, reply


def _token_in(body: bytes | bytearray) -> str | None:
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return None
    token = answer.get("token") or answer.get("access_token") if isinstance(answer, dict) else None
    return token if isinstance(token, str) and token.isprintable() else None
