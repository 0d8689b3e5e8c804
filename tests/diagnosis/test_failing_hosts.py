"""The cause of a whole failing host is told among the lines of a healthy one; tests/hosts/failing.yaml."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from service_record.diagnosis.causes import built_in_causes
from service_record.record.entry import Entry, Phase
from tests.builders import BOOT_ID, entry, require
from tests.healthy_hosts import FILE, Host, healthy_hosts, waited

CAUSES: Final = built_in_causes()
HEALTHY: Final = {host.name: host for host in healthy_hosts()}
FAILING: Final[list[dict[str, Any]]] = yaml.safe_load(
    Path(FILE).with_name("failing.yaml").read_text(encoding="utf-8")
)
_LOGS: Final = ("kernel", "journal", "agent", "installer")


def host_of(values: dict[str, Any]) -> Host:
    """Return the healthy host with the lines and files of the failing one added."""
    base = dict(HEALTHY[values["among"]].values)
    for name in _LOGS:
        if name in values:
            base[name] = f"{base.get(name, '')}{values[name]}"
    for name in ("containers", "files"):
        base[name] = {**base.get(name, {}), **values.get(name, {})}
    base["services"] = {
        name: does
        for name, does in base["services"].items()
        if name != values["failed"]["service"] and not values["failed"].get("reboots")
    }
    return Host(base)


def failed_service(failed: dict[str, Any]) -> tuple[str, list[Entry]]:
    """Return the records of the service that failed, or in whose midst the host went down."""
    if failed.get("reboots"):
        boots = ("b1" * 16, "b2" * 16, "b3" * 16, BOOT_ID)
        return failed["service"], [
            one
            for number, boot in enumerate(boots, -3)
            for one in (
                entry(Phase.SERVICE_START, 300.0 * number, boot_id=boot, invocation_id=boot),
                entry(Phase.STAGE_START, 300.0 * number + 1, stage="up", boot_id=boot, invocation_id=boot),
            )
        ]
    _, entries = waited(failed["says"])
    return failed["service"], entries


def test_there_are_enough_of_them() -> None:
    assert len({values["name"] for values in FAILING}) == len(FAILING)
    assert len(FAILING) >= 15


@pytest.mark.parametrize("values", FAILING, ids=lambda values: values["name"])
def test_cause_is_found_among_harmless_lines(values: dict[str, Any]) -> None:
    found = host_of(values).diagnosis(CAUSES, failed_service(values["failed"]))
    assert found.root is not None
    assert found.root.service == values["failed"]["service"]
    assert require(found.root.cause).name == values["cause"]
