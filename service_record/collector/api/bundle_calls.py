"""Calls that receive, list and return bundles and rendered installer templates.

Bundles are uploaded with the assisted-service's call for logs.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from service_record.collector.api.answering import Created, Download, JsonAnswer, NoContent, Refusal
from service_record.collector.api.operation import HOSTS, READERS, TEXT, Short, operation
from service_record.collector.api.requests import receive
from service_record.collector.api.serving import Serving, caller, host_name, plain_body
from service_record.collector.assisted import cluster_rows, installations
from service_record.collector.assisted.assisted_calls import read_path_id
from service_record.collector.assisted.cluster_rows import NewObject
from service_record.collector.assisted.installation_rules import CLUSTER_LOGS, LOGS_TYPES, CallRefused, is_id
from service_record.collector.assisted.installations import Arrival, read_group
from service_record.collector.domain.access import Forbidden, Grant, TokenKind
from service_record.collector.domain.steps import readable
from service_record.collector.ingest.incoming import IncomingFile
from service_record.collector.logs import describe_fault, log
from service_record.collector.store import (
    bundle_rows,
)
from service_record.collector.store.bundle_rows import BundleAdded
from service_record.collector.store.objects import NoSuchObject, ObjectError, new_key
from service_record.http.collector_answers import ShownBundle
from service_record.redaction import LeakError, refuse_template_leaks

T = TypeVar("T")
_FORM_FIELD: Final = "upfile"
_PROBE_NAME: Final = "probe.tar.gz"
"""The boot reporter sends a small file of this name to find out if logs are accepted. It is not stored."""
_MAX_PROBE_BYTES: Final = 1024
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Bundles(msgspec.Struct):
    """The bundles of a host, latest first."""

    host: str
    bundles: tuple[ShownBundle, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """The host or cluster that uploaded logs belong to, and the kind of logs."""

    arrival: Arrival
    """Its `host` is the cluster's id if the logs belong to a cluster."""
    kind: str


class LogsQuery(msgspec.Struct, kw_only=True):
    """The parameters of an upload of logs."""

    logs_type: str = ""
    host_id: str | UnsetType = UNSET
    infra_env_id: str | UnsetType = UNSET


class TemplateQuery(msgspec.Struct, kw_only=True):
    """The parameters of a rendered template."""

    name: Short = ""


@operation(
    "POST /api/assisted-install/v2/clusters/{cluster_id}/logs",
    who=HOSTS,
    body="multipart/form-data",
    refusals=(404, 409, 507),
    counted="bundle",
)
async def post_logs(request: Request, query: LogsQuery) -> NoContent:
    """As the assisted-service: upload the logs of a host (a bundle) or of a cluster.

    All parameters are checked before the file is read, so a refused upload writes nothing.
    """
    serving, grant = caller(request)
    collector, settings = serving.collector, serving.settings
    sent = await _find_owner(request, grant, query)
    try:
        with collector.incoming.file(settings.most_bundle) as file:
            name = await receive(request, _FORM_FIELD, file, settings.seconds)
            if name == _PROBE_NAME and file.size <= _MAX_PROBE_BYTES:
                return NoContent()
            keep_it = _keep_cluster_logs if sent.kind in CLUSTER_LOGS else keep
            await keep_it(serving, sent, name, file)
    except OSError as fault:
        raise _storage_refusal("bundle", fault) from None
    return NoContent()


async def _find_owner(request: Request, grant: Grant, query: LogsQuery) -> Sent:
    """Return the owner of uploaded logs. Raises CallRefused or Forbidden."""
    serving = Serving.of(request)
    cluster_id = read_path_id(request, "cluster_id")
    kind = query.logs_type
    if kind not in LOGS_TYPES:
        raise CallRefused(HTTPStatus.BAD_REQUEST, f"logs_type in query should be one of {sorted(LOGS_TYPES)}")
    is_of_cluster = kind in CLUSTER_LOGS
    host_id = query.host_id
    if host_id is UNSET:
        host_id = cluster_id if is_of_cluster else ""
    infra_env_id = cluster_id if query.infra_env_id is UNSET else query.infra_env_id
    for name, value in (("host_id", host_id), ("infra_env_id", infra_env_id)):
        if not is_id(value):
            raise CallRefused(HTTPStatus.BAD_REQUEST, f"{name} in query must be of type uuid")

    def look_up(connection: Connection) -> str:
        if not is_of_cluster:
            return _find_host(connection, grant, cluster_id, host_id.lower())
        cluster_rows.check_writable(connection, cluster_id, grant)
        return cluster_id

    host = await serving.ask(look_up)
    return Sent(Arrival(host, grant, serving.collector.now()), kind)


def _find_host(connection: Connection, grant: Grant, cluster_id: str, host_id: str) -> str:
    """Return the name of a host, or the id if it is unknown. Raises CallRefused or Forbidden."""
    installation = installations.find(connection, host_id)
    name = installation.host if installation else host_id
    group = installation.group if installation else read_group(connection, host_id)
    may_write = grant.may_write(name, grant.group_of_new_host("") if group is None else group)
    if not may_write:
        raise Forbidden(f"this token may not write for {host_id}")
    if installation is not None and installation.installation.cluster_id != cluster_id:
        raise CallRefused(HTTPStatus.NOT_FOUND, f"host {host_id} was not found in cluster {cluster_id}")
    if installation is None and group is None and grant.kind is TokenKind.ADMIN:
        raise CallRefused(HTTPStatus.NOT_FOUND, f"host {host_id} was not found")
    return name


async def _put_object(serving: Serving, sent: Sent, name: str, file: IncomingFile) -> NewObject:
    """Store an uploaded file in the object store. Raises ObjectError."""
    key = new_key(sent.arrival.host)
    file.stream.flush()
    await run_in_threadpool(serving.collector.objects.put, key, file.path)
    return NewObject(kind=sent.kind, name=name, key=key, size=file.size, sha256=file.sha256)


def _storage_refusal(what: str, fault: OSError) -> Refusal:
    reason = f"the {what} cannot be written: {fault.strerror}"
    return Refusal(HTTPStatus.INSUFFICIENT_STORAGE, reason, {"Retry-After": "60"})


async def _delete_object(serving: Serving, key: str) -> None:
    try:
        await run_in_threadpool(serving.collector.objects.delete, [key])
    except ObjectError as fault:  # housekeeping deletes objects without a row after a day
        log().warning("an object could not be deleted", **describe_fault(fault))


async def _keep_cluster_logs(serving: Serving, sent: Sent, name: str, file: IncomingFile) -> None:
    """Replace the stored logs of a cluster, as the assisted-service does."""
    new, arrival = await _put_object(serving, sent, name, file), sent.arrival
    replaced = await serving.change(
        lambda connection: cluster_rows.add_logs(connection, arrival.host, new, arrival.grant, arrival.at)
    )
    if replaced is not None:
        await _delete_object(serving, replaced)


async def keep(serving: Serving, sent: Sent, name: str, file: IncomingFile) -> BundleAdded:
    """Store a bundle in the object store and in the database."""
    new = await _put_object(serving, sent, name, file)
    # Keep the object if this fails: the transaction may have been committed nevertheless.
    added = await serving.change(lambda connection: bundle_rows.add(connection, sent.arrival, new))
    if added.is_new:
        serving.collector.indexer.wake()
        serving.collector.housekeeper.note_bytes(new.size)
    else:  # the same bundle is stored already
        await _delete_object(serving, new.key)
    for key in added.replaced:
        await _delete_object(serving, key)
    return added


@operation("GET /api/v1/hosts/{host}/bundles", who=READERS, refusals=(404,))
async def list_bundles(request: Request) -> JsonAnswer[Bundles]:
    """List the bundles of a host."""
    serving, host = Serving.of(request), host_name(request.path_params["host"])
    stored = await serving.ask(lambda connection: bundle_rows.list_bundles(connection, host))
    if stored is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {host}")
    return JsonAnswer(Bundles(host, stored))


@operation("GET /api/v1/hosts/{host}/bundles/{bundle:number}", who=READERS, refusals=(404,))
async def get_bundle(request: Request) -> Download:
    """Download a bundle, unchanged.

    The host's page links to it too, with a session instead of a token.
    """
    serving, host = Serving.of(request), host_name(request.path_params["host"])
    collector = serving.collector
    number = request.path_params["bundle"]

    def look_up() -> tuple[bundle_rows.StoredBundle, Iterator[bytes]] | None:
        with collector.database.reading() as connection:
            bundle = bundle_rows.find(connection, host, number)
        return None if bundle is None else (bundle, collector.objects.read(bundle.key))

    bundle, pieces = await _look_up(look_up, f"{host} has no bundle {number}")
    return _download(pieces, bundle.size, f"{host}-{bundle.id}-{bundle.name}")


@operation("GET /api/v1/clusters/{cluster}/logs/{kind}", who=READERS, refusals=(404,))
async def get_cluster_logs(request: Request) -> Download:
    """Download the logs of a cluster, unchanged. The kind is controller or all."""
    serving, grant = caller(request)
    collector = serving.collector
    cluster, kind = str(request.path_params["cluster"]), str(request.path_params["kind"])

    def look_up() -> tuple[str, int, Iterator[bytes]] | None:
        with collector.database.reading() as connection:
            detail = cluster_rows.show_cluster(connection, cluster, collector.now(), grant.confined_to)
            logs = detail and cluster_rows.find_logs(connection, detail.summary.id, kind)
        return None if not logs else (logs[1], logs[2], collector.objects.read(logs[0]))

    name, size, pieces = await _look_up(look_up, f"there are no logs of kind {kind} of cluster {cluster}")
    return _download(pieces, size, f"{cluster}-{kind}-{name}")


def _download(pieces: Iterator[bytes], size: int, name: str) -> Download:
    disposition = f'attachment; filename="{_UNSAFE_CHARACTERS.sub("_", name)}"'
    return Download(pieces, {"Content-Length": str(size), "Content-Disposition": disposition})


async def _look_up(look_up: Callable[[], T | None], missing: str) -> T:
    """Run `look_up` in a thread and return its result. Raises Refusal 404 if it is None, or ObjectError."""
    try:
        value = await run_in_threadpool(look_up)
    except NoSuchObject:
        value = None
    if value is None:
        raise Refusal(HTTPStatus.NOT_FOUND, missing)
    return value


class TemplateKept(msgspec.Struct):
    """A template that is kept."""

    id: int
    host: str


@operation("POST /api/v1/hosts/{host}/templates", who=HOSTS, body=TEXT, refusals=(422, 507))
async def post_template(request: Request, query: TemplateQuery) -> Created[TemplateKept]:
    """Attach a rendered template, as text without secrets, to the host's build.

    The sender masks secrets. If a secret is found nevertheless, the template is refused with 422.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    name = readable(query.name).strip()
    if not name:
        raise Refusal(HTTPStatus.BAD_REQUEST, "name in query should be a text of at most 255 characters")
    text = await plain_body(request)
    try:
        await run_in_threadpool(refuse_template_leaks, text)
    except LeakError:
        reason = "the template has a secret that is not masked; send it with service-record ship --template"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, reason) from None
    sent = Sent(Arrival(host, grant, serving.collector.now()), bundle_rows.TEMPLATE)
    try:
        with serving.collector.incoming.file(serving.settings.most_body) as file:
            await run_in_threadpool(file.write, text)
            reply = await keep(serving, sent, name, file)
    except OSError as fault:
        raise _storage_refusal("template", fault) from None
    return Created(TemplateKept(reply.id, host))


async def show_template(request: Request) -> Response:
    """`GET /hosts/{host}/templates/{template}`: a template as plain text."""
    collector = Serving.of(request).collector
    host, number = host_name(request.path_params["host"]), request.path_params["template"]

    def look_up() -> bytes | None:
        with collector.database.reading() as connection:
            bundle = bundle_rows.find(connection, host, number)
        is_template = bundle is not None and bundle.kind == bundle_rows.TEMPLATE
        return b"".join(collector.objects.read(bundle.key)) if bundle is not None and is_template else None

    text = await _look_up(look_up, f"{host} has no template {number}")
    return Response(text, media_type="text/plain", headers={"Cache-Control": "no-store"})
