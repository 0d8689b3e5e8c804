"""Our config merged into somebody else's."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.deploy.ignition.checking import check
from service_record.deploy.ignition.making import ROLES, DeliveryRequest, items_to_deliver, make
from service_record.deploy.ignition.merging import merge
from service_record.deploy.ignition.reading import VERSIONS, BadConfigError
from service_record.deploy.ignition.urls import compress, encode_data_url
from tests.ignition_configs import Config, discovery, set_value

SHIM = "/usr/local/bin/bootstrap-service-record.sh"
SETTINGS = 'ship_to = ["https://example.com/"]\n'


def ours(role: str = "worker", version: str = "3.4.0") -> Config:
    return make(items_to_deliver(DeliveryRequest(role=role, settings=SETTINGS)), version)


def kept(base: Any, merged: Any) -> bool:
    """Return whether all of the base is in the merged one, at its place and in its order."""
    if isinstance(base, dict):
        return all(name in merged and kept(value, merged[name]) for name, value in base.items())
    if isinstance(base, list):
        pairs = zip(base, merged, strict=False)
        return len(base) <= len(merged) and all(kept(one, other) for one, other in pairs)
    return bool(base == merged)


def without_version(config: Config) -> Config:
    copied = copy.deepcopy(config)
    del copied["ignition"]["version"]
    return copied


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("base", VERSIONS)
def test_merge_keeps_base_and_takes_higher_version(role: str, base: str) -> None:
    before = discovery(base)
    merged = merge(before, ours(role))
    assert before == discovery(base)
    assert kept(without_version(before), merged)
    assert merged["ignition"]["version"] == max(base, "3.4.0")
    assert check(merged) == ()
    for kind in ("files",):
        added = merged["storage"][kind][len(before["storage"][kind]) :]
        assert added == ours(role)["storage"][kind]


@pytest.mark.slow
@given(st.sets(st.sampled_from(["passwd", "storage", "systemd"])), st.sampled_from(VERSIONS))
def test_missing_sections_of_base_are_added(absent: set[str], version: str) -> None:
    base = {name: value for name, value in discovery(version).items() if name not in absent}
    merged = merge(base, ours())
    assert kept(without_version(base), merged)
    assert kept(
        without_version(ours())["storage"]["files"],
        merged["storage"]["files"][-len(ours()["storage"]["files"]) :],
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("storage.files.0.path", SHIM, f"storage.files[0]: '{SHIM}' is there already"),
        ("storage.links.0.path", SHIM, f"storage.links[0]: '{SHIM}' is there already"),
        ("storage.directories.0.path", SHIM, f"storage.directories[0]: '{SHIM}' is there already"),
        (
            "systemd.units.0.name",
            "boot-reporter.service",
            "the unit 'boot-reporter.service' is there already",
        ),
        ("storage.files.0.path", "/etc/systemd/system/boot-reporter.timer", "boot-reporter.timer"),
    ],
)
def test_path_in_both_configs_is_refused(path: str, value: str, message: str) -> None:
    base = discovery()
    set_value(path, value)(base)
    with pytest.raises(BadConfigError) as caught:
        merge(base, ours())
    assert message in str(caught.value)


def test_path_in_nested_config_is_refused() -> None:
    inner = {"ignition": {"version": "3.1.0"}, "storage": {"files": [{"path": SHIM}]}}
    base = discovery()
    source = encode_data_url(compress(json.dumps(inner).encode()))
    base["ignition"]["config"]["merge"].append({"source": source, "compression": "gzip"})
    with pytest.raises(BadConfigError, match=r"merge\[1\] storage.files\[0\]: .* is there already"):
        merge(base, ours())


def test_only_the_named_file_is_replaced() -> None:
    base = discovery()
    set_value("storage.files.0.path", SHIM)(base)
    merged = merge(base, ours("bootstrap"), [SHIM])
    paths = [file["path"] for file in merged["storage"]["files"]]
    assert paths[:2] == ["/etc/hello", "/etc/hosts"]
    assert paths.count(SHIM) == 1


@pytest.mark.parametrize(
    ("path", "message"), [("/etc/hello", "ours has no such file"), (SHIM, "no such file to replace")]
)
def test_replacing_a_missing_file_is_an_error(path: str, message: str) -> None:
    with pytest.raises(BadConfigError, match=message):
        merge(discovery(), ours(), [path])


def test_mode_changed_by_higher_version_is_refused() -> None:
    base = discovery()
    set_value("storage.files.0.mode", 755)(base)
    with pytest.raises(BadConfigError, match=r"files\[0\].mode: .* or make ours with --spec 3.1.0"):
        merge(base, ours())
    assert merge(base, ours(version="3.1.0"))["ignition"]["version"] == "3.1.0"


def test_config_with_replace_is_refused() -> None:
    base = discovery()
    base["ignition"]["config"]["replace"] = {"source": "https://example.com/other.ign"}
    with pytest.raises(BadConfigError, match=r"other.ign' in the place of all that is here"):
        merge(base, ours())
