"""Names with the syntax of paths, queries or formats are refused, or stored as plain text."""

import json
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import func, select

from service_record.collector.store import dialects
from service_record.collector.store.schema import hosts, steps, tokens
from testing.postgresql import Cluster
from tests.collector.serving import RunningCollector

HOSTILE = [
    *("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd", "C:\\windows\\system32", "web1\x00.txt"),
    *("web1\nSet-Cookie: a=b", "'; DROP TABLE hosts; --", '" OR ""="', "1); DELETE FROM tokens WHERE (1=1"),
    *("%s%s%n{0.__class__}", "{{7*7}}${7*7}", "$(touch /tmp/owned)`id`", "\u202etsoh", "\ud7ff\U0010ffff"),
    *("a" * 5000, ".", "..", "-rf"),
]


def files_of(server: RunningCollector) -> set[Path]:
    data = server.collector.settings.data
    return {path.relative_to(data.parent) for path in data.parent.rglob("*")}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_invalid_host_name_is_refused(running: RunningCollector, hostile: str) -> None:
    admin, before = running.client("admin"), files_of(running)
    path = f"/api/v1/hosts/{quote(hostile, safe='')}"

    replies = [
        admin.step(quote(hostile, safe=""), "Disk setup"),
        admin.post("/api/update", data={"name": hostile, "status": "x"}),
        admin.ask("PUT", path, data={}),
        admin.get(path),
        admin.get(f"{path}/records"),
        admin.get(f"{path}/bundles"),
        admin.post("/api/v1/tokens", kind="host", scope=hostile),
        running.client("enrolment").post("/api/v1/enrol", host=hostile),
    ]

    assert {reply.status for reply in replies} <= {400, 404, 405}
    assert files_of(running) == before
    with running.collector.database.reading() as connection:
        assert connection.execute(select(func.count()).select_from(hosts)).scalar_one() == 0


@pytest.mark.parametrize("hostile", HOSTILE)
def test_step_fields_are_stored_as_text(tmp_path: Path, running: RunningCollector, hostile: str) -> None:
    host = running.client("host", "text1")

    reply = host.post(
        "/api/v1/hosts/text1/steps",
        data=dict.fromkeys(("name", "label", "action", "group", "release", "build", "logs"), hostile),
    )

    assert reply.status == 201
    with running.collector.database.changing() as connection:
        (row,) = connection.execute(select(steps)).all()
        assert row.name.strip() == row.name
        assert hostile.replace("\x00", " ") in {row.logs, row.logs.strip()}
        assert set(row.label) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")
        assert connection.execute(select(func.count()).select_from(tokens)).scalar_one() > 0
        connection.execute(hosts.delete())


@pytest.mark.parametrize("hostile", HOSTILE)
def test_filters_are_compared_as_text(running: RunningCollector, hostile: str) -> None:
    admin = running.client("admin")
    asked = [
        admin.get("/api/v1/hosts", group=hostile, machine=hostile),
        admin.get("/api/v1/hosts", verdict=hostile),
        admin.get("/api/v1/hosts", limit=hostile, after=hostile),
        admin.get("/api/v1/audit", before=hostile),
        admin.get("/api/v1/statistics", group=hostile, release=hostile),
        admin.get("/api/v1/statistics", by=hostile),
        admin.get(f"/api/v1/hosts/web1/records/{quote(hostile, safe='')}"),
        admin.get(f"/api/v1/hosts/web1/bundles/{quote(hostile, safe='')}"),
        admin.ask("DELETE", f"/api/v1/tokens/{quote(hostile, safe='')}"),
        admin.get(f"/static/{quote(hostile, safe='')}"),
    ]

    assert {reply.status for reply in asked} <= {200, 400, 404, 405}
    assert b"root:" not in b"".join(reply.body for reply in asked)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_groups_are_validated_and_logged_as_text(running: RunningCollector, hostile: str) -> None:
    admin = running.client("admin")

    refused = admin.ask("PUT", "/api/v1/hosts/group1", data={"group": hostile})
    made = admin.ask("POST", "/api/v1/tokens", form={"kind": "reader", "name": hostile})

    assert refused.status == 400
    assert made.status in {201, 400}
    assert admin.get("/api/v1/audit").status == 200


def test_deep_nesting_and_many_fields_are_refused(running: RunningCollector) -> None:
    host = running.client("host", "deep1")
    path = "/api/v1/hosts/deep1/steps"
    bodies = [
        b'{"name":' * 20_000,
        b'{"name": "x", "a": ' + b"[" * 100_000,
        b'{"name": "x", "a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b"&".join(b"a%d=1" % number for number in range(5_000)),
        b'{"name": ' + b"9" * 200_000 + b"}",
        b"\xff\xfe\x00{",
    ]

    statuses = [host.ask("POST", path, body=body).status for body in bodies]

    assert all(status in {201, 400} for status in statuses)
    assert host.ask("POST", path, body=b"x" * 300_000).status == 413
    assert host.step("deep1", "after that").status == 201


def test_forged_login_is_refused(running: RunningCollector) -> None:
    origin = {"Origin": running.url}
    bodies = [
        b"&".join([b"a=1"] * 100),
        b"token=" + b"x" * 100_000,
        b"\xff" * 1000,
        b"{" * 10_000,
        b"token=srt_1_",
    ]

    statuses = [running.stranger.ask("POST", "/login", body=body, headers=origin).status for body in bodies]

    assert set(statuses) <= {400, 401, 403}


def test_headers_never_contain_user_text(running: RunningCollector) -> None:
    admin = running.client("admin")
    for hostile in HOSTILE:
        reply = admin.get(f"/api/v1/hosts/{quote(hostile, safe='')}")
        assert "set-cookie" not in {name.lower() for name in reply.headers}
        if reply.headers["content-type"].startswith("application"):
            json.loads(reply.body)


@pytest.mark.parametrize(
    "values",
    [[""], [None], ["a", None], ["NULL", "None"], ['"', "\\", '\\"', "{,}", "'"], [" a ", "a,b", "ü\n"]],
    ids=str,
)
def test_array_literal_keeps_texts(cluster: Cluster, values: list[str | None]) -> None:
    with psycopg.connect(cluster.url("postgres")) as connection:
        row = connection.execute("SELECT CAST(%s AS text[])", [dialects._text_array(values)]).fetchone()

    assert row == (values,)


def test_array_literal_does_not_split_texts_with_nul(cluster: Cluster) -> None:
    with psycopg.connect(cluster.url("postgres")) as connection, pytest.raises(psycopg.DataError):
        connection.execute("SELECT CAST(%s AS text[])", [dialects._text_array(["a\0b", "c"])])
