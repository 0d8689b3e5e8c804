"""What of a config is refused: by us, what merging cannot be safe with; by the tools of Ignition all else."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.deploy.ignition.checking import check, require_valid
from service_record.deploy.ignition.reading import (
    VERSIONS,
    BadConfigError,
    read_config,
    validate,
    validate_butane,
)
from tests.ignition_configs import DAMAGES, Config, discovery, remove_value, set_value

ONLY_OURS = {
    # what Ignition takes, and then does something else, or fails with on the host
    *(
        "bytes that are no text",
        "a field given twice",
        "a field of a later version",
        "a field in other letters",
    ),
    *("a file below a file", "a file where a unit is"),  # the latter is refused from 3.4.0 on
}

damages = pytest.mark.parametrize(
    ("damaged", "message"), [pytest.param(*row, id=name) for name, row in DAMAGES.items()]
)


@pytest.mark.parametrize("version", VERSIONS)
def test_valid_config_passes_in_each_version(version: str) -> None:
    assert check(discovery(version)) == ()


@damages
def test_damaged_config_is_one_error(damaged: bytes, message: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        require_valid(read_config(damaged))
    line = str(caught.value)
    assert message in line
    assert "\n" not in line
    assert len(line) < 250


@pytest.mark.skipif(shutil.which("ignition-validate") is None, reason="no ignition-validate")
@pytest.mark.parametrize("name", DAMAGES)
def test_ignition_refuses_the_same_configs(name: str) -> None:
    config = DAMAGES[name][0]
    if name != "a field of a later version":
        config = config.replace(b'"3.1.0"', b'"3.3.0"')
    assert accepts(config) == (name in ONLY_OURS)


@pytest.mark.skipif(shutil.which("ignition-validate") is None, reason="no ignition-validate")
def test_ignition_accepts_valid_config() -> None:
    assert accepts(json.dumps(discovery("3.3.0")).encode())


def accepts(config: bytes) -> bool:
    done = subprocess.run(["ignition-validate", "-"], input=config, capture_output=True, check=False)
    return done.returncode == 0


def with_storage(version: str = "3.4.0", **storage: object) -> Config:
    return {"ignition": {"version": version}, "storage": storage}


LUKS = {"name": "root", "device": "/dev/vda4"}
REFUSED = {
    "an encrypted device before its time": (with_storage("3.1.0", luks=[LUKS]), "from 3.2.0 on"),
    "an option of encryption before its time": (
        with_storage("3.3.0", luks=[{**LUKS, "discard": True}]),
        "from 3.4.0 on",
    ),
    "a user that is not to be before its time": (
        {"ignition": {"version": "3.1.0"}, "passwd": {"users": [{"name": "a", "shouldExist": False}]}},
        "from 3.2.0 on",
    ),
    "a directory below a file": (
        with_storage(directories=[{"path": "/a/b"}], files=[{"path": "/a"}]),
        "below a file",
    ),
    "a section in other letters": ({"ignition": {"version": "3.4.0"}, "Storage": {}}, "taken for storage"),
}


@pytest.mark.parametrize(
    ("config", "message"), [pytest.param(*row, id=name) for name, row in REFUSED.items()]
)
def test_config_unsafe_to_merge_is_refused(config: Config, message: str) -> None:
    with pytest.raises(BadConfigError, match=message):
        require_valid(config)


@pytest.mark.skipif(shutil.which("ignition-validate") is None, reason="no ignition-validate")
def test_ignition_validate_finds_other_mistakes() -> None:
    config = discovery("3.3.0")
    warnings = validate(json.dumps(config | {"networkd": {}}).encode())
    assert "networkd: Unused key networkd; ignition-validate says it" in warnings
    set_value("storage.files.0.mode", 4096)(config)
    with pytest.raises(BadConfigError, match=r"^storage\.files\[0\]\.mode: illegal file mode$"):
        validate(json.dumps(config).encode())


@pytest.mark.skipif(shutil.which("ignition-validate") is None, reason="no ignition-validate")
def test_version_unknown_to_ignition_validate_is_not_judged() -> None:
    assert validate(b'{"ignition": {"version": "3.99.0"}}') == ()


def test_missing_tools_give_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert validate(b"{}") == ()
    validate_butane(b"{}")


def test_butane_errors_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "butane"
    program.write_text(
        "#!/bin/sh\necho 'error at $.storage.files.0.path, line 1 col 2: path not absolute' >&2; exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadConfigError, match=r"storage\.files\[0\]\.path: path not absolute"):
        validate_butane(b"variant: fcos\n")


def test_null_equals_a_missing_value() -> None:
    config = with_storage(files=[{"path": "/a", "mode": None, "contents": None, "append": None}], luks=None)
    assert check(config) == ()


def places(value: object, path: str = "") -> list[str]:
    """Every place in a document, as `put` takes it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [(f"{path}.{name}".lstrip("."), each) for name, each in pairs]
    return [place for where, each in inner for place in (where, *places(each, where))]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", "/", "data:,"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(places(discovery("3.4.0"))), anything)
def test_any_replaced_value_passes_or_is_one_error(place: str, value: object) -> None:
    config = discovery("3.4.0")
    set_value(place, value)(config)
    judged(json.dumps(config).encode())


@given(st.sampled_from(places(discovery("3.4.0"))))
def test_any_missing_value_passes_or_is_one_error(place: str) -> None:
    config = discovery("3.4.0")
    remove_value(place)(config)
    judged(json.dumps(config).encode())


@given(st.integers(0), st.integers(0, 40), st.binary(max_size=8))
def test_any_damaged_byte_passes_or_is_one_error(place: int, length: int, put_there: bytes) -> None:
    data = json.dumps(discovery()).encode()
    start = place % len(data)
    judged(data[:start] + put_there + data[start + length :])


@pytest.mark.parametrize("number", [100, 900, 100_000])
def test_deep_nesting_is_refused(number: int) -> None:
    with pytest.raises(BadConfigError, match="nested too deeply"):
        read_config(b'{"ignition": {"version": "3.4.0"}, "x": ' + b"[" * number + b"]" * number + b"}")


def judged(data: bytes) -> None:
    try:
        require_valid(read_config(data))
    except BadConfigError as error:
        line = str(error)
        assert line.isprintable() or not line.isascii()
        assert "\n" not in line
        assert len(line) < 400
