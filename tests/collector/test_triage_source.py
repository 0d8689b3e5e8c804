"""`service-record triage collector://...`: the latest bundles of a collector's hosts."""

import gzip
import json
import time
from pathlib import Path

import pytest

from tests.archives import record, tar
from tests.assisted_rules import AssistedRules
from tests.builders import failed_run
from tests.collector.installing import Agent
from tests.collector.serving import make_collector_settings, run_collector
from tests.command_line import service_record


@pytest.mark.slow
def test_latest_bundle_of_each_host_is_judged(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        for n in range(3):
            host = AssistedRules().add_host()
            agent = Agent(server.client("host", host.id), host)
            for message in ("an earlier failure", "cp: error writing '/var/a': No space left on device"):
                entries = failed_run(at=n, error_message=message)
                assert agent.upload(gzip.compress(tar(record("bootkube", *entries)))).status == 204
        reader = server.client("reader")
        until = time.monotonic() + 60
        latest = [-1]
        while latest != [2, 4, 6] and time.monotonic() < until:  # each bundle was read
            time.sleep(0.2)
            names = [host["name"] for host in reader.get("/api/v1/hosts", all="true").json["hosts"]]
            records = (reader.get(f"/api/v1/hosts/{name}/records").json for name in names)
            latest = sorted(one.get("bundle") or 0 for one in records)
        token = tmp_path / "token"
        token.write_text(reader.token)
        place = server.url.replace("http://", "collector+http://")
        answer = service_record("triage", place, "-o", "json", SERVICE_RECORD_TOKEN_FILE=str(token))

    assert answer.status == 0, answer.err
    document = json.loads(answer.out)
    assert [(cause["cause"], cause["bundles"]) for cause in document["causes"]] == [("disk-full", 3)]
