"""Calls of administrators (tokens, hosts, builds, audit log), and enrolment."""

from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import Connection
from starlette.requests import Request

from service_record.collector.api.answering import Created, CreatedText, JsonAnswer, NoContent, Refusal
from service_record.collector.api.operation import (
    ADMINISTRATORS,
    ENROLLING,
    GroupName,
    HostName,
    Lifetime,
    Schema,
    Short,
    Uuid,
    operation,
)
from service_record.collector.api.serving import Serving, caller, host_name
from service_record.collector.assisted import installations
from service_record.collector.assisted.host_states import HostState
from service_record.collector.assisted.installation_rules import Mapped
from service_record.collector.domain.access import GROUP_PATTERN, Grant, TokenKind, parse_expiry, parse_scope
from service_record.collector.store import (
    administration,
    tokens,
)
from service_record.collector.store.administration import AuditEntry
from service_record.collector.store.tokens import TokenShown
from service_record.http.address import HOST_PATTERN


class TokenMade(msgspec.Struct):
    """A new token; it is never shown again."""

    id: int
    token: str
    kind: str
    scope: str
    expires_at: float | None


def _scopes(kinds: tuple[str, ...], pattern: str, *, required: bool) -> dict[str, Any]:
    """Return the schema of tokens of these kinds, whose scope matches a pattern."""
    kind, scope = {"enum": list(kinds)}, {"type": "string", "pattern": f"^(?:{pattern})$"}
    schema = {"properties": {"kind": kind, "scope": scope}}
    return {**schema, "required": ["scope"]} if required else schema


class NewToken(msgspec.Struct, omit_defaults=True):
    """A token to make."""

    json_rules: ClassVar[Schema] = {
        "anyOf": [
            _scopes(("host", "boot", "cloud-init"), HOST_PATTERN, required=True),
            _scopes(("group",), GROUP_PATTERN, required=True),
            _scopes(("reader",), f"(?:{GROUP_PATTERN})?", required=False),
            _scopes(("enrolment",), f"(?:host:{HOST_PATTERN}|group:{GROUP_PATTERN})?", required=False),
            _scopes(("admin",), "", required=False),
        ]
    }

    kind: TokenKind
    scope: Short = ""
    """A host's name for `host`, `boot` and `cloud-init`; a group for `group` and `reader`; `host:NAME`,
    `group:NAME` or empty for `enrolment`; empty for `admin`.
    """
    name: Short = ""
    expires: Lifetime = ""
    """The lifetime, such as `30d`, or `never`."""


class Tokens(msgspec.Struct):
    """All tokens, without their secrets."""

    tokens: tuple[TokenShown, ...]


class AuditQuery(msgspec.Struct):
    """The parameters of a list of audit entries."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    before: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    """Only entries with smaller ids."""


class Audit(msgspec.Struct):
    """The administrative actions, latest first."""

    entries: tuple[AuditEntry, ...]


class HostFields(msgspec.Struct, omit_defaults=True):
    """An administrator's fields of a host; `id` and `cluster_id` are those of an assisted-service."""

    group: GroupName | UnsetType = UNSET
    release: Short | UnsetType = UNSET
    hardware: Short | UnsetType = UNSET
    """Vendor and model of the machine."""
    id: Uuid = ""
    cluster_id: Uuid = ""
    infra_env_id: Uuid = ""
    role: Literal["", "master", "arbiter", "worker", "auto-assign"] = ""
    bootstrap: bool = False
    single_node: bool = False
    status: Annotated[
        str,
        Meta(
            pattern=f"^(?:{'|'.join(HostState)})?$",
            extra_json_schema={"enum": ["", *HostState]},
        ),
    ] = ""
    """A state of the assisted-service, such as `discovering`. Empty for a host that reboots into its disk."""


class HostPut(msgspec.Struct):
    """The result of putting a host."""

    host: str
    created: bool


class NewBuild(msgspec.Struct, omit_defaults=True):
    """A build to begin."""

    build: Short = ""
    action: Short = ""


class BuildBegun(msgspec.Struct):
    """A build that has begun."""

    host: str
    build: int


@operation("POST /api/v1/tokens", who=ADMINISTRATORS)
async def create_token(request: Request, body: NewToken) -> Created[TokenMade]:
    """Create a token."""
    serving, grant = caller(request)
    return Created(await make_token(serving, grant, body))


async def make_token(serving: Serving, grant: Grant, asked: NewToken) -> TokenMade:
    """Create a token. Raises Refusal."""
    now = serving.collector.now()
    try:
        new = tokens.TokenRequest(
            kind=asked.kind,
            scope=parse_scope(asked.kind, asked.scope),
            name=asked.name,
            created_by=grant.holder,
            expires_at=parse_expiry(asked.kind, asked.expires, now),
        )
    except ValueError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
    number, token = await serving.change(lambda connection: administration.create_token(connection, new, now))
    return TokenMade(number, token, new.kind.value, new.scope, new.expires_at)


@operation("GET /api/v1/tokens", who=ADMINISTRATORS)
async def list_tokens(request: Request) -> JsonAnswer[Tokens]:
    """List all tokens, without their secrets."""
    serving, _ = caller(request)
    return JsonAnswer(Tokens(await serving.ask(tokens.list_tokens)))


@operation("DELETE /api/v1/tokens/{token:number}", who=ADMINISTRATORS, refusals=(404,))
async def revoke_token(request: Request) -> NoContent:
    """Revoke a token."""
    serving, grant = caller(request)
    number = request.path_params["token"]
    now = serving.collector.now()
    revoked = await serving.change(
        lambda connection: administration.revoke_token(connection, number, grant.holder, now)
    )
    if not revoked:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no valid token {number}")
    serving.guard.forget(number)
    return NoContent()


@operation("GET /api/v1/audit", who=ADMINISTRATORS)
async def list_audit(request: Request, query: AuditQuery) -> JsonAnswer[Audit]:
    """List the entries of the audit log, latest first."""
    serving, _ = caller(request)
    return JsonAnswer(
        Audit(await serving.ask(lambda c: administration.list_audit(c, query.limit, query.before)))
    )


@operation("PUT /api/v1/hosts/{host}", who=ADMINISTRATORS, refusals=(409,))
async def put_host(request: Request, body: HostFields) -> JsonAnswer[HostPut] | Created[HostPut]:
    """Create a host before it reports, or change its properties.

    Those are `group`, `release` and `hardware`.
    With `id`, `cluster_id` and further fields, the host is mapped to a host of an assisted-service.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    given = {"group": body.group, "release": body.release, "hardware": body.hardware}
    fields = {name: value for name, value in given.items() if value is not UNSET}
    mapped = None
    if body.id or body.cluster_id:
        if not (body.id and body.cluster_id):
            raise Refusal(HTTPStatus.BAD_REQUEST, "id and cluster_id go together, and are of type uuid")
        mapped = Mapped(
            id=body.id.lower(),
            cluster_id=body.cluster_id.lower(),
            infra_env_id=body.infra_env_id.lower(),
            role=body.role or "master",
            is_bootstrap=body.bootstrap,
            is_single_node=body.single_node,
            status=body.status,
        )
    now = serving.collector.now()
    noted = {**fields, **({"id": mapped.id, "cluster_id": mapped.cluster_id} if mapped else {})}
    subject = " ".join([host, *(f"{name}={value}" for name, value in noted.items())])

    def put(connection: Connection) -> bool:
        administration.note(connection, grant.holder, "host put", subject, now)
        is_new = administration.put_host(connection, host, fields, now)
        if mapped is not None:
            installations.map_host(connection, host, mapped, now)
        return is_new

    is_new = await serving.change(put)
    return (Created if is_new else JsonAnswer)(HostPut(host, is_new))


@operation("DELETE /api/v1/hosts/{host}", who=ADMINISTRATORS, refusals=(404,))
async def delete_host(request: Request) -> NoContent:
    """Delete a host, all of its reports, and its tokens."""
    serving, grant = caller(request)
    await forget_host(serving, grant, host_name(request.path_params["host"]))
    return NoContent()


async def forget_host(serving: Serving, grant: Grant, host: str) -> None:
    """Delete a host with its reports and tokens. Raises Refusal 404."""
    now = serving.collector.now()

    def delete(connection: Connection) -> set[int] | None:
        revoked = administration.delete_host(connection, host, now)
        if revoked is not None:
            administration.note(connection, grant.holder, "host delete", host, now)
        return revoked

    revoked = await serving.change(delete)
    if revoked is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}")
    for token_id in revoked:
        serving.guard.forget(token_id)


@operation("POST /api/v1/hosts/{host}/builds", who=ADMINISTRATORS, refusals=(404,))
async def begin_build(request: Request, body: NewBuild) -> Created[BuildBegun]:
    """Begin a new build of a host."""
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    now = serving.collector.now()

    def begin(connection: Connection) -> int | None:
        number = administration.begin_build(connection, host, body.build, body.action, now)
        if number is not None:
            administration.note(connection, grant.holder, "build begin", f"{host} {number}", now)
        return number

    number = await serving.change(begin)
    if number is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}; PUT it first")
    return Created(BuildBegun(host, number))


class Enrolment(msgspec.Struct, omit_defaults=True):
    """A request for a token."""

    host: HostName
    group: GroupName = ""


class Enrolled(msgspec.Struct):
    """A host's token; it is never shown again."""

    host: str
    token: str


@operation("POST /api/v1/enrol", who=ENROLLING)
async def enrol(request: Request, body: Enrolment) -> Created[Enrolled] | CreatedText:
    """Exchange a one-time token for the token of a host.

    The answer is the token and a line feed, for shell scripts, or JSON if the client accepts JSON.
    """
    serving, grant = caller(request)
    host = body.host.lower()
    now = serving.collector.now()
    try:
        token = await serving.change(
            lambda connection: administration.enrol(connection, grant, host, body.group, now)
        )
    except administration.Used as error:
        raise Refusal(HTTPStatus.UNAUTHORIZED, str(error), {"WWW-Authenticate": "Bearer"}) from None
    finally:
        serving.guard.forget(grant.token_id)
    if "application/json" in request.headers.get("accept", ""):
        return Created(Enrolled(host, token))
    return CreatedText(f"{token}\n")
