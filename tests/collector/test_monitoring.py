"""The alert rules and the dashboard use only existing metrics and labels of the collector."""

import json
import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.collector.serving import RunningCollector

_FOLDER: Final = Path(__file__).parents[2] / "packages/monitoring"
_METRIC: Final = re.compile(r"service_record_\w+")
_LABELS: Final = re.compile(r"by \(([^)]*)\)|{(\w+)=")


def expressions(file: str) -> list[str]:
    """Return the Prometheus expressions in a file."""
    text = (_FOLDER / file).read_text()
    if file.endswith(".json"):
        return [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    return [rule["expr"] for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_summary_of_one_host_is_singular() -> None:
    summaries = [line for line in (_FOLDER / "alerts.yaml").read_text().splitlines() if "hosts are" in line]
    assert len(summaries) == 2
    assert all("{{ if eq $value 1.0 }}host is{{ else }}hosts are{{ end }}" in line for line in summaries)


@pytest.mark.parametrize("file", ["alerts.yaml", "dashboard.json"])
def test_alerts_and_dashboard_use_existing_metrics(server: RunningCollector, file: str) -> None:
    server.client("host", "web1").step("web1", "Disk setup", "failed")
    server.settle()
    reader = server.client("reader")
    reader.get("/api/v1/hosts")
    metrics = reader.get("/metrics").body.decode()

    asked = expressions(file)

    assert len(asked) >= 4
    for expression in asked:
        for metric in _METRIC.findall(expression):
            assert re.search(rf"^(# TYPE )?{metric}\b", metrics, re.MULTILINE), metric
        for several, one in _LABELS.findall(expression):
            for label in re.split(r",\s*", several or one):
                assert f'{label}="' in metrics or (
                    (label, "clusters" in expression) == ("status", True)
                    or (label, "notices" in expression) == ("destination", True)
                ), label
