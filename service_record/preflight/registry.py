"""Check that images can be pulled, by requesting their manifests from a registry. No layer is downloaded."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urljoin

from service_record.http.answers import RetryPolicy, Unreachable
from service_record.http.proxies import read_proxies
from service_record.preflight.checks import CheckResult, CheckState, not_checked

if TYPE_CHECKING:
    from service_record.http.transport import Reply

_REQUEST_SECONDS: Final = 8.0
_MAX_MANIFEST_BYTES: Final = 4 << 20  # registries reject larger manifests
_MAX_ARCHITECTURES: Final = 16
_REDIRECTIONS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTIONS: Final = 3
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_ADVICE: Final = {
    HTTPStatus.UNAUTHORIZED: "The pull secret is wrong or has expired: download it again.",
    HTTPStatus.FORBIDDEN: "The account of the pull secret may not pull it.",
    HTTPStatus.NOT_FOUND: "See the name and tag, or whether the mirror has it.",
}
_PORTAL_ADVICE: Final = "Open its URL from this host: a login portal or proxy may answer in its place."
_LISTS: Final = frozenset(
    {"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"}
)
_MANIFESTS: Final = _LISTS | {
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
}
_IMAGE: Final = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::\d+)?|\[[0-9a-f:]+\](?::\d+)?)/(?P<name>[a-z0-9._/-]+?)"
    r"(?::(?P<tag>[\w.-]{1,128}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_LOOPBACK: Final = re.compile(r"127(\.\d{1,3}){3}(:\d+)?")
"""Registries that are used without TLS unless a CA bundle is given, like insecure registries of podman."""
_DIGEST: Final = re.compile("sha256:[0-9a-f]{64}")
_PARAMETER: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Image:
    """The parsed name of an image."""

    host: str
    name: str
    reference: str
    """A tag or a digest."""

    def __str__(self) -> str:
        return f"{self.host}/{self.name}, {self.reference}"


def read_image(text: str) -> Image:
    """Read `HOST[:PORT]/NAME[:TAG][@DIGEST]`. Raises ValueError."""
    match = _IMAGE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a valid image; use HOST/NAME:TAG or HOST/NAME@sha256:DIGEST")
    return Image(match["host"], match["name"], match["digest"] or match["tag"] or "latest")


def read_pull_secret(path: Path) -> Mapping[str, str]:
    """Return the credentials in a pull secret, base64 by place. Raises OSError, ValueError.

    A place is a registry or a namespace in it, such as `quay.io` or `quay.io/team`.
    """
    try:
        auths = json.loads(path.read_bytes())["auths"]
        return {place: str(entry["auth"]) for place, entry in auths.items() if "auth" in entry}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: not a pull secret; expected JSON with 'auths'") from None


def credentials_for(image: Image, auths: Mapping[str, str]) -> str | None:
    """Return the credentials of the most specific place that contains the image; None if there is none.

    The rules are those of containers-auth.json(5).
    """
    places = {re.sub(r"^https?://|/v[12]/?$|/$", "", place): auth for place, auth in auths.items()}
    path: str = f"{image.host}/{image.name}"
    while path:
        if path in places:
            return places[path]
        path = path.rpartition("/")[0]
    return None


def check_images(
    images: Sequence[Image], pull_secret: Path | None, ca_bundle: Path | None
) -> tuple[CheckResult, ...]:
    """Check that a registry answers and has these images, which must all be on the same registry.

    The pull secret is sent only if the registry refuses access without it.
    """
    registry = _Registry(images[0].host, ca_bundle)
    try:
        registry.check()
    except RegistryError as error:
        unreached = [not_checked("release image", "the registry was not reached") for _ in images]
        if error.has_no_network:
            return not_checked(
                "registry", f"{registry.host}: {error}", "Give this host a network."
            ), *unreached
        advice = error.advice or (
            "See whether this host reaches it, through a proxy if one is set, and trusts its certificate "
            "(--ca-bundle FILE)."
        )
        reached = CheckResult("registry", CheckState.FAILED, f"{registry.host}: {error}", advice)
        return reached, *unreached
    answered = CheckResult("registry", CheckState.PASSED, f"{registry.host} answers")
    return answered, *(_check_image(registry, image, pull_secret) for image in images)


def _check_image(registry: "_Registry", image: Image, pull_secret: Path | None) -> CheckResult:
    try:
        status, reply, authorization = registry.manifest(image, None)
        access = "anybody may pull it; the pull secret was not tried"
        if status in _REFUSED:
            credentials = _credentials(image, pull_secret)
            if isinstance(credentials, CheckResult):
                return credentials
            status, reply, authorization = registry.manifest(image, credentials)
            access = "the registry refuses it without the pull secret, and accepts that"
        if status in _ADVICE:
            detail = f"{image}: the registry answered {status}"
            return CheckResult("release image", CheckState.FAILED, detail, _ADVICE[HTTPStatus(status)])
        if status != HTTPStatus.OK:
            return not_checked("release image", f"{image}: the registry answered {status}", "Try again.")
        manifest = _read_manifest(reply, image.reference)
        architectures = [
            _check_architecture(registry, image, entry, authorization)
            for entry in manifest.get("manifests", ())[:_MAX_ARCHITECTURES]
        ]
    except _BadManifest as error:
        return CheckResult("release image", CheckState.FAILED, f"{image}: {error}", _PORTAL_ADVICE)
    except RegistryError as error:
        return not_checked("release image", f"{image}: {error}", "Try again.")
    found = f"there for {', '.join(architectures)}" if architectures else "there"
    return CheckResult("release image", CheckState.PASSED, f"{image}: {found}; {access}")


def _credentials(image: Image, pull_secret: Path | None) -> str | CheckResult:
    """Return the credentials for an image, or the result of the check if there are none."""
    if pull_secret is None:
        return not_checked(
            "release image",
            f"{image}: the registry refuses it without credentials, and no pull secret is named",
            "Name it: --pull-secret FILE.",
        )
    try:
        credentials = credentials_for(image, read_pull_secret(pull_secret))
    except OSError as error:
        advice = "Run it as root." if isinstance(error, PermissionError) else "Name the right file."
        return not_checked("release image", f"{pull_secret}: {error.strerror}", advice)
    except ValueError as error:
        advice = "Download it again from console.redhat.com."
        return CheckResult("release image", CheckState.FAILED, str(error), advice)
    if credentials is None:
        detail = f"{image}: the pull secret has nothing for {image.host}"
        advice = "Add the registry to the pull secret."
        return CheckResult("release image", CheckState.FAILED, detail, advice)
    return credentials


def _check_architecture(registry: "_Registry", image: Image, entry: Any, authorization: str | None) -> str:
    """Check one image of a list, and return its architecture. Raises _BadManifest, RegistryError."""
    digest = entry.get("digest") if isinstance(entry, dict) else None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise _BadManifest("its list names an image without a valid digest")
    platform = entry.get("platform")
    name = str(platform.get("architecture", digest)) if isinstance(platform, dict) else digest
    status, reply = registry.request_manifest(image, digest, authorization)
    if status != HTTPStatus.OK:
        raise _BadManifest(f"the registry answered {status} for its {name} image, {digest}")
    try:
        _read_manifest(reply, digest)
    except _BadManifest as error:
        raise _BadManifest(f"{name}: {error}") from None
    return name


class _BadManifest(Exception):  # noqa: N818  # the registry's fault
    """An answer with status 200 that is not the manifest of the image. The message gives the reason."""


def _read_manifest(reply: "Reply", reference: str) -> dict[str, Any]:
    """Return the manifest in a reply after checking its type and digest. Raises _BadManifest."""
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _MANIFESTS:
        raise _BadManifest(f"the answer is {media_type or 'of no type'}, not a manifest")
    try:
        manifest = json.loads(reply.body)
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("mediaType", media_type) != media_type:
        raise _BadManifest(f"the answer is not the {media_type} that its header names")
    if not isinstance(manifest.get("manifests" if media_type in _LISTS else "layers"), list):
        raise _BadManifest("the manifest has neither layers nor images")
    wanted = reference if _DIGEST.fullmatch(reference) else reply.headers.get("docker-content-digest", "")
    digest = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
    if _DIGEST.fullmatch(wanted) and digest != wanted:
        raise _BadManifest(f"the manifest has the digest {digest}, and not {wanted}")
    return manifest


class RegistryError(Exception):
    """A registry or its token server gave no usable answer. The message gives the reason in one line."""

    def __init__(self, reason: str, *, has_no_network: bool = False, advice: str = "") -> None:
        super().__init__(reason)
        self.has_no_network = has_no_network
        self.advice = advice


class _Registry:
    """A client of a registry's HTTP API: the OCI distribution specification, with Docker's token servers."""

    def __init__(self, host: str, ca_bundle: Path | None) -> None:
        self.host = host
        is_plain = ca_bundle is None and _LOOPBACK.fullmatch(host)
        self._scheme = "http" if is_plain else "https"
        self._ca_bundle = ca_bundle

    def check(self) -> None:
        """Raise RegistryError unless `/v2/` answers like a registry."""
        status, reply = self._request(f"{self._scheme}://{self.host}/v2/")
        if status == HTTPStatus.UNAUTHORIZED and reply.headers.get("www-authenticate"):
            return
        if status != HTTPStatus.OK:
            raise RegistryError(f"it answered {status} at /v2/, which no registry does")
        if "html" in reply.headers.get("content-type", "").lower():
            raise RegistryError(
                "it answered with a web page at /v2/, which no registry does", advice=_PORTAL_ADVICE
            )

    def manifest(self, image: Image, credentials: str | None) -> "tuple[int, Reply, str | None]":
        """Request the manifest of an image, and log in if the registry demands it.

        Without credentials, the log-in is anonymous. Returns the status, the reply and the Authorization
        header that was sent. Raises RegistryError.
        """
        status, reply = self.request_manifest(image, image.reference, None)
        challenge = reply.headers.get("www-authenticate", "")
        authorization: str | None = None
        if status == HTTPStatus.UNAUTHORIZED and challenge.lower().startswith("bearer "):
            token_status, token_reply, token = self._request_token(image, challenge, credentials)
            if token is None:
                return token_status, token_reply, None
            authorization = f"Bearer {token}"
        elif status in _REFUSED and credentials is not None:
            authorization = f"Basic {credentials}"
        if authorization is not None:
            status, reply = self.request_manifest(image, image.reference, authorization)
        return status, reply, authorization

    def request_manifest(
        self, image: Image, reference: str, authorization: str | None
    ) -> "tuple[int, Reply]":
        """Request a manifest, and return the status and the reply. Raises RegistryError."""
        url = f"{self._scheme}://{self.host}/v2/{image.name}/manifests/{reference}"
        return self._request(url, authorization, accept=", ".join(sorted(_MANIFESTS)))

    def _request_token(
        self, image: Image, challenge: str, credentials: str | None
    ) -> "tuple[int, Reply, str | None]":
        parameters = dict(_PARAMETER.findall(challenge))
        realm = parameters.get("realm", "")
        if not realm.startswith(f"{self._scheme}://"):
            raise RegistryError(f"its token server is not reached by {self._scheme}")
        query = {"scope": f"repository:{image.name}:pull"}
        if "service" in parameters:
            query["service"] = parameters["service"]
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        status, reply = self._request(url, None if credentials is None else f"Basic {credentials}")
        if status != HTTPStatus.OK:
            return status, reply, None
        token = _read_token(reply.body)
        if token is None:
            raise RegistryError("its token server gave no token")
        return status, reply, token

    def _request(
        self, url: str, authorization: str | None = None, accept: str = "*/*"
    ) -> "tuple[int, Reply]":
        """Request a URL, and return the status and the reply. Redirections get no credentials."""
        accepted = {"Accept": accept}
        headers = accepted | ({"Authorization": authorization} if authorization is not None else {})
        for _ in range(_MAX_REDIRECTIONS):
            status, reply = self._request_once(url, headers)
            location = reply.headers.get("location")
            if status not in _REDIRECTIONS or not location:
                return status, reply
            url, headers = urljoin(url, location), accepted
            if not url.startswith(f"{self._scheme}://"):
                raise RegistryError(f"it redirects to a server that is not reached by {self._scheme}")
        raise RegistryError("it redirects again and again")

    def _request_once(self, url: str, headers: Mapping[str, str]) -> "tuple[int, Reply]":
        from service_record.http.attempt import Request  # in an extra
        from service_record.http.transport import Transport

        transport = Transport(
            url,
            ca_bundle=self._ca_bundle,
            proxies=read_proxies(os.environ),
            retry_policy=RetryPolicy(
                connect=_REQUEST_SECONDS, read=_REQUEST_SECONDS, total=_REQUEST_SECONDS, tries=1
            ),
            secrets=(headers.get("Authorization", "").partition(" ")[2],),
        )
        try:
            reply = transport.call(
                Request(method="GET", url=url, headers=headers, most_body=_MAX_MANIFEST_BYTES)
            )
        finally:
            transport.close()
        if isinstance(reply.outcome, Unreachable):
            raise RegistryError(reply.outcome.reason, has_no_network=reply.outcome.has_no_network)
        return reply.outcome.status, reply


def _read_token(body: bytes | bytearray) -> str | None:
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return None
    token = answer.get("token") or answer.get("access_token") if isinstance(answer, dict) else None
    return token if isinstance(token, str) and token.isprintable() else None
