"""Calls of administrators (tokens, hosts, builds, audit log), and enrolment."""

from http import HTTPStatus
from typing import Final

import msgspec
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from service_record.collector.api.answering import Refusal, answer
from service_record.collector.api.requests import parse_fields, whole_number
from service_record.collector.api.serving import Serving, caller, host_name, plain_body
from service_record.collector.domain import access
from service_record.collector.domain.access import Grant, TokenKind, expiry_of, scope_of
from service_record.collector.domain.installation_rules import mapped_of
from service_record.collector.domain.steps import LONGEST_NAME, readable
from service_record.collector.store import administration, installations, tokens
from service_record.collector.store.administration import Noted
from service_record.collector.store.tokens import TokenShown

_MOST_NOTED: Final = 1000


class TokenMade(msgspec.Struct):
    """A new token; it is never shown again."""

    id: int
    token: str
    kind: str
    scope: str
    expires_at: float | None


class Tokens(msgspec.Struct):
    """All tokens, without their secrets."""

    tokens: tuple[TokenShown, ...]


class Audit(msgspec.Struct):
    """The administrative actions, latest first."""

    entries: tuple[Noted, ...]


class HostPut(msgspec.Struct):
    """The result of putting a host."""

    host: str
    created: bool


class BuildBegun(msgspec.Struct):
    """A build that has begun."""

    host: str
    build: int


async def create_token(request: Request) -> Response:
    """`POST /api/v1/tokens`: create a token with `kind`, `scope`, `name` and `expires` (such as `30d`)."""
    serving, grant = caller(request)
    return answer(await make_token(serving, grant, await named_fields(request)), HTTPStatus.CREATED)


async def make_token(serving: Serving, grant: Grant, fields: dict[str, str]) -> TokenMade:
    """Create a token with these fields. Raises Refusal."""
    now = serving.collector.now()
    new = _new_token(fields, grant.holder, now)
    number, token = await serving.change(lambda connection: administration.create_token(connection, new, now))
    return TokenMade(number, token, new.kind.value, new.scope, new.expires_at)


async def list_tokens(request: Request) -> Response:
    """`GET /api/v1/tokens`: list all tokens."""
    serving, _ = caller(request)
    return answer(Tokens(await serving.ask(tokens.list_tokens)))


async def revoke_token(request: Request) -> Response:
    """`DELETE /api/v1/tokens/{token}`: revoke a token."""
    serving, grant = caller(request)
    number = request.path_params["token"]
    now = serving.collector.now()
    revoked = await serving.change(
        lambda connection: administration.revoke_token(connection, number, grant.holder, now)
    )
    if not revoked:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no token {number} that is worth anything")
    serving.guard.forget(number)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def list_audit(request: Request) -> Response:
    """`GET /api/v1/audit?limit=...&before=...`: the audit log, latest entry first."""
    serving, _ = caller(request)
    query = request.query_params
    limit = whole_number(query.get("limit") or "100", "limit", 1, _MOST_NOTED)
    before = whole_number(query["before"], "before", 1, 2**53) if query.get("before") else None
    return answer(Audit(await serving.ask(lambda c: administration.list_audit(c, limit, before))))


async def put_host(request: Request) -> Response:
    """`PUT /api/v1/hosts/{host}`: create a host before it reports, or change its properties.

    Those are `group`, `release` and `hardware`.
    With `id`, `cluster_id` and further fields, the host is mapped to a host of an assisted-service.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    body = await named_fields(request)
    fields: dict[str, str] = {name: body[name] for name in ("group", "release", "hardware") if name in body}
    if fields.get("group") and not access.is_group(fields["group"]):
        raise Refusal(HTTPStatus.BAD_REQUEST, access.GROUP_RULE)
    mapped = mapped_of(body)
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
    return answer(HostPut(host, is_new), HTTPStatus.CREATED if is_new else HTTPStatus.OK)


async def delete_host(request: Request) -> Response:
    """`DELETE /api/v1/hosts/{host}`: delete a host with its reports and tokens."""
    serving, grant = caller(request)
    await forget_host(serving, grant, host_name(request.path_params["host"]))
    return Response(status_code=HTTPStatus.NO_CONTENT)


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


async def begin_build(request: Request) -> Response:
    """`POST /api/v1/hosts/{host}/builds`: begin a build with the key `build` and an `action`."""
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    body = await named_fields(request)
    key, action = body.get("build", ""), body.get("action", "")
    now = serving.collector.now()

    def begin(connection: Connection) -> int | None:
        number = administration.begin_build(connection, host, key, action, now)
        if number is not None:
            administration.note(connection, grant.holder, "build begin", f"{host} {number}", now)
        return number

    number = await serving.change(begin)
    if number is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}; PUT it first")
    return answer(BuildBegun(host, number), HTTPStatus.CREATED)


async def named_fields(request: Request) -> dict[str, str]:
    """Return the fields of a body as texts. Raises Refusal if one is no text or number, or is too long."""
    fields = parse_fields(await plain_body(request))
    texts: dict[str, str] = {}
    for name, value in fields.items():
        if value is None:
            continue
        if not isinstance(value, str | int | float) or len(str(value)) > LONGEST_NAME:
            raise Refusal(
                HTTPStatus.BAD_REQUEST, f"{readable(name)[:64]} is not a text of at most 255 characters"
            )
        texts[name] = readable(str(value)).strip()
    return texts


def _new_token(fields: dict[str, str], holder: str, now: float) -> tokens.TokenRequest:
    try:
        kind = TokenKind(fields.get("kind", ""))
    except ValueError:
        raise Refusal(
            HTTPStatus.BAD_REQUEST, f"the kind of a token is one of {', '.join(TokenKind)}"
        ) from None
    try:
        scope = scope_of(kind, fields.get("scope", ""))
        expires_at = expiry_of(kind, fields.get("expires", ""), now)
    except ValueError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from None
    return tokens.TokenRequest(
        kind=kind, scope=scope, name=fields.get("name", ""), created_by=holder, expires_at=expires_at
    )


class Enrolled(msgspec.Struct):
    """A host's token; it is never shown again."""

    host: str
    token: str


async def enrol(request: Request) -> Response:
    """`POST /api/v1/enrol` with `host` and, for a new host, `group`: create the host's token.

    The answer is the token and a line feed, for shell scripts, or JSON if the client accepts JSON.
    """
    serving, grant = caller(request)
    fields = parse_fields(await plain_body(request))
    host, group = host_name(str(fields.get("host") or "")), str(fields.get("group") or "")
    if group and not access.is_group(group):
        raise Refusal(HTTPStatus.BAD_REQUEST, access.GROUP_RULE)
    now = serving.collector.now()
    try:
        token = await serving.change(
            lambda connection: administration.enrol(connection, grant, host, group, now)
        )
    except administration.Used as error:
        raise Refusal(HTTPStatus.UNAUTHORIZED, str(error), {"WWW-Authenticate": "Bearer"}) from None
    finally:
        serving.guard.forget(grant.token_id)
    if "application/json" in request.headers.get("accept", ""):
        return answer(Enrolled(host, token), HTTPStatus.CREATED)
    return PlainTextResponse(f"{token}\n", HTTPStatus.CREATED)
