"""`analyze --from collector://...`: records that a host sent live, and the evidence of its latest bundle."""

import gzip
import json
import time
from pathlib import Path
from urllib.parse import urlsplit

from service_record.http.collector_client import CollectorClient
from service_record.http.record_sending import Sender
from service_record.record.directory import Records
from tests.archives import member, record, tar
from tests.assisted_rules import AssistedRules
from tests.builders import failed_run, timestamp, write_lines
from tests.collector.installing import Agent
from tests.collector.serving import make_collector_settings, run_collector
from tests.command_line import service_record

WAITED = "Error: error while checking pod status: timed out waiting for the condition"
KERNEL = f"{timestamp(5)} host kernel: Out of memory: Killed process 6214 (hyperkube) total-vm:1586752kB\n"


def test_live_records_use_evidence_of_latest_bundle(tmp_path: Path) -> None:
    run = failed_run(error_message=WAITED)
    packed = gzip.compress(
        tar(record("bootkube", *run), member("log-bundle-1/bootstrap/journals/kernel.log", KERNEL.encode()))
    )
    with run_collector(make_collector_settings(tmp_path)) as server:
        host = AssistedRules().add_host()
        reader, own = server.client("reader"), server.client("host", host.id)
        (tmp_path / "token").write_text(reader.token)
        assert Agent(own, host).upload(packed).status == 204
        until = time.monotonic() + 60
        records: dict[str, object] = {}
        while not records.get("bundle") and time.monotonic() < until:  # the bundle was read
            time.sleep(0.2)
            (name,) = (one["name"] for one in reader.get("/api/v1/hosts", all="true").json["hosts"])
            records = reader.get(f"/api/v1/hosts/{name}/records").json
        for has_live_records in (False, True):
            if has_live_records:
                (tmp_path / "live").mkdir()
                write_lines(tmp_path / "live" / "bootkube.json", *run)
                sender = CollectorClient(server.url, server.client("host", name).token)
                Sender(sender, name, Records(tmp_path / "live")).send()
                assert reader.get(f"/api/v1/hosts/{name}/records").json["services"]
            place = f"collector://{urlsplit(server.url).netloc}/{name}"
            answer = service_record(
                "analyze", "--from", place, "-o", "json", SERVICE_RECORD_TOKEN_FILE=str(tmp_path / "token")
            )
            root = json.loads(answer.out)["root"]
            assert (answer.status, root["cause"]["name"]) == (1, "out-of-memory")
