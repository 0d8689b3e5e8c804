"""Acknowledged bundles and records survive SIGKILL, and are read after a restart."""

import signal

import pytest

from service_record.collector.domain.access import TokenKind
from service_record.collector.serving_settings import CollectorSettings
from service_record.collector.store import tokens
from service_record.collector.store.database import Database, sqlite_url
from service_record.collector.store.tokens import TokenRequest
from testing.collector import process
from tests.assisted_rules import AssistedRules
from tests.builders import failed_run
from tests.collector.installing import Agent
from tests.collector.serving import Client, run_collector
from tests.collector.test_bundles import FAILED, indexed
from tests.collector.test_records import piece, send


def token_of(settings: CollectorSettings, host: str) -> str:
    database = Database(settings.database or sqlite_url(settings.data))
    with database.changing() as connection:
        made = tokens.create(
            connection, TokenRequest(kind=TokenKind.HOST, scope=host, created_by="test"), 0.0
        )
    database.close()
    return made


@pytest.mark.slow
def test_acknowledged_reports_survive_sigkill(
    settings: CollectorSettings,
) -> None:
    host = AssistedRules().add_host()
    token = token_of(settings, host.id)
    lines = b"".join(one.to_line() for one in failed_run("pull"))
    with process(settings) as killed:
        client = Client(killed.url, token)
        answers = [
            Agent(client, host).upload(FAILED).status,
            send(client, host.id, piece("bootkube", 0, lines)).status,
        ]
        killed.end(signal.SIGKILL)

    with run_collector(settings) as server:
        bundle = indexed(server, host.id)
        kept = b"".join(server.collector.objects.read(bundle.key))
        record = server.client("reader").get(f"/api/v1/hosts/{host.id}/records/bootkube").body

    assert answers == [204, 200]
    assert (kept, bundle.verdict) == (FAILED, "failed")
    assert record == lines + b"\n"
