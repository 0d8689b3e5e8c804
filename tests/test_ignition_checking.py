"""What of a config is refused, by the rules of the Ignition specification."""

import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.deploy.ignition.checking import check, insist
from service_record.deploy.ignition.reading import VERSIONS, BadConfigError, read_config
from tests.ignition_configs import DAMAGES, Config, discovery, drop, put

ONLY_OURS = {
    # what Ignition takes, and then does something else, or fails with on the host
    *(
        "bytes that are no text",
        "a field given twice",
        "a field of a later version",
        "a field in other letters",
    ),
    *("a file below a file", "gzip that is none", "a hash of other data", "a user without a name"),
    *("a partition without end", "a time below zero"),
    "a file where a unit is",  # refused from 3.4.0 on
}

damages = pytest.mark.parametrize(
    ("damaged", "said"), [pytest.param(*row, id=name) for name, row in DAMAGES.items()]
)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_wrong_with_a_good_config_of_any_version(version: str) -> None:
    assert check(discovery(version)) == ()


@damages
def test_a_damaged_config_is_refused_in_one_line(damaged: bytes, said: str) -> None:
    with pytest.raises(BadConfigError) as caught:
        insist(read_config(damaged))
    line = str(caught.value)
    assert said in line
    assert "\n" not in line
    assert len(line) < 250


@pytest.mark.skipif(shutil.which("ignition-validate") is None, reason="no ignition-validate")
@pytest.mark.parametrize("name", DAMAGES)
def test_ignition_itself_refuses_what_we_refuse(name: str) -> None:
    config = DAMAGES[name][0]
    if name != "a field of a later version":
        config = config.replace(b'"3.1.0"', b'"3.3.0"')
    assert accepts(config) == (name in ONLY_OURS)


@pytest.mark.skipif(shutil.which("ignition-validate") is None, reason="no ignition-validate")
def test_ignition_itself_takes_the_good_config() -> None:
    assert accepts(json.dumps(discovery("3.3.0")).encode())


def accepts(config: bytes) -> bool:
    done = subprocess.run(["ignition-validate", "-"], input=config, capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("networkd", {}, "networkd: no such field, Ignition passes over it"),
        ("storage.files.0.content", {}, "perhaps contents is meant"),
        (
            "storage.files.0.mode",
            755,
            "755 is 01363, with special bits, which 3.1.0 passes over; perhaps 0755",
        ),
        ("systemd.units.0.contents", "[Service]\n", "no [Install] section"),
        ("systemd.units.0.contents", "a=b\n[Install]\n", "before any section"),
    ],
)
def test_what_ignition_takes_but_does_not_do_is_a_warning(path: str, value: object, said: str) -> None:
    config = discovery()
    put(path, value)(config)
    (fault,) = check(config)
    assert fault.is_warning
    assert said in str(fault)


def with_storage(version: str = "3.4.0", **storage: object) -> Config:
    return {"ignition": {"version": version}, "storage": storage}


LUKS = {"name": "root", "device": "/dev/vda4"}
ARRAY = {"name": "md0", "level": "raid1", "devices": ["/dev/vdb"]}
REFUSED = {
    "a disk given twice": (
        with_storage(disks=[{"device": "/dev/vda"}, {"device": "/dev/vda"}]),
        "given before",
    ),
    "partitions that overlap": (
        with_storage(
            disks=[
                {
                    "device": "/dev/vda",
                    "partitions": [
                        {"number": 1, "startMiB": 1, "sizeMiB": 100},
                        {"number": 2, "startMiB": 50, "sizeMiB": 100},
                    ],
                }
            ]
        ),
        "partitions[1]: begins before the end",
    ),
    "a partition to be gone with a size": (
        with_storage(
            disks=[{"device": "/dev/vda", "partitions": [{"number": 1, "shouldExist": False, "sizeMiB": 1}]}]
        ),
        "is not to exist, and has sizeMiB",
    ),
    "a partition to be gone without a number": (
        with_storage(disks=[{"device": "/dev/vda", "partitions": [{"shouldExist": False}]}]),
        "number is missing",
    ),
    "a GUID that is none": (
        with_storage(disks=[{"device": "/dev/vda", "partitions": [{"number": 1, "guid": "x"}]}]),
        "no GUID",
    ),
    "spares of stripes": (
        with_storage(raid=[{**ARRAY, "level": "raid0", "spares": 1}]),
        "spares: are not for raid0",
    ),
    "an array of nothing": (with_storage(raid=[{**ARRAY, "devices": []}]), "devices: are missing"),
    "an array of one device twice": (
        with_storage(raid=[{**ARRAY, "devices": ["/dev/vdb", "/dev/vdb"]}]),
        "given before",
    ),
    "no format of 3.2.0": (
        with_storage("3.2.0", filesystems=[{"device": "/dev/vda1", "format": "none"}]),
        "no format",
    ),
    "a label without format": (
        with_storage(filesystems=[{"device": "/dev/vda1", "label": "a"}]),
        "format: is missing",
    ),
    "an encrypted device before its time": (with_storage("3.1.0", luks=[LUKS]), "from 3.2.0 on"),
    "an option of encryption before its time": (
        with_storage("3.3.0", luks=[{**LUKS, "discard": True}]),
        "from 3.4.0 on",
    ),
    "clevis of two minds": (
        with_storage(luks=[{**LUKS, "clevis": {"tpm2": True, "custom": {"pin": "a", "config": "b"}}}]),
        "custom stands alone",
    ),
    "tang without a thumbprint": (
        with_storage(luks=[{**LUKS, "clevis": {"tang": [{"url": "https://tang"}]}}]),
        "both url and thumbprint",
    ),
    "a server of tang that is none": (
        with_storage(luks=[{**LUKS, "clevis": {"tang": [{"url": "/", "thumbprint": "x"}]}}]),
        "no URL of http or https",
    ),
    "a device with dots": (with_storage(disks=[{"device": "/dev/../dev/vda"}]), "not simple"),
    "a mount point that is not simple": (
        with_storage(filesystems=[{"device": "/dev/vda1", "format": "xfs", "path": "//var"}]),
        "not simple",
    ),
    "a host without proxy given twice": (
        {"ignition": {"version": "3.4.0", "proxy": {"noProxy": ["a", "a"]}}},
        "given before",
    ),
    "a hard link to a directory": (
        with_storage(
            directories=[{"path": "/opt/a"}], links=[{"path": "/b", "target": "/opt/a", "hard": True}]
        ),
        "is a directory",
    ),
    "a directory below a file": (
        with_storage(directories=[{"path": "/a/b"}], files=[{"path": "/a"}]),
        "below a file",
    ),
    "gzip in S3": (
        with_storage(files=[{"path": "/a", "contents": {"source": "s3://b/k", "compression": "gzip"}}]),
        "S3",
    ),
    "an ARN of something else": (
        with_storage(files=[{"path": "/a", "contents": {"source": "arn:aws:iam::1:user/x"}}]),
        "no ARN of S3",
    ),
    "a hash without a source": (
        with_storage(files=[{"path": "/a", "contents": {"verification": {"hash": "sha256-" + "0" * 64}}}]),
        "verifies nothing",
    ),
    "gzip that is cut off": (
        with_storage(
            files=[{"path": "/a", "contents": {"source": "data:;base64,H4sIAAAAAAAC", "compression": "gzip"}}]
        ),
        "cut off",
    ),
    "an argument of the kernel twice": (
        {
            "ignition": {"version": "3.4.0"},
            "kernelArguments": {"shouldExist": ["a"], "shouldNotExist": ["a"]},
        },
        "given before",
    ),
}


@pytest.mark.parametrize(("config", "said"), [pytest.param(*row, id=name) for name, row in REFUSED.items()])
def test_each_rule_of_the_specification_refuses_what_breaks_it(config: Config, said: str) -> None:
    with pytest.raises(BadConfigError, match=said.replace("[", r"\[")):
        insist(config)


@pytest.mark.parametrize(
    "source",
    [
        *("", "data:,", "data:,a%20b", "data:text/plain;charset=utf-8;base64,aGk=", "data:;base64,"),
        *("http://example.com/a", "https://[2001:db8::1]:8443/a", "tftp://192.0.2.1/a", "gs://bucket/a"),
        *("s3://bucket/a?versionId=1", "arn:aws:s3:::bucket/a"),
    ],
)
def test_every_url_that_ignition_fetches_from_is_taken(source: str) -> None:
    assert check(with_storage(files=[{"path": "/a", "contents": {"source": source}}])) == ()


def test_null_is_as_good_as_nothing() -> None:
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
def test_whatever_stands_wherever_is_taken_or_refused_in_a_line(place: str, value: object) -> None:
    config = discovery("3.4.0")
    put(place, value)(config)
    judged(json.dumps(config).encode())


@given(st.sampled_from(places(discovery("3.4.0"))))
def test_whatever_is_missing_is_missed_or_not(place: str) -> None:
    config = discovery("3.4.0")
    drop(place)(config)
    judged(json.dumps(config).encode())


@given(st.integers(0), st.integers(0, 40), st.binary(max_size=8))
def test_whatever_bytes_are_damaged_nothing_breaks(place: int, length: int, put_there: bytes) -> None:
    data = json.dumps(discovery()).encode()
    start = place % len(data)
    judged(data[:start] + put_there + data[start + length :])


@pytest.mark.parametrize("number", [100, 900, 100_000])
def test_what_is_nested_deeply_is_refused(number: int) -> None:
    with pytest.raises(BadConfigError, match="nested too deeply"):
        read_config(b'{"ignition": {"version": "3.4.0"}, "x": ' + b"[" * number + b"]" * number + b"}")


def judged(data: bytes) -> None:
    try:
        insist(read_config(data))
    except BadConfigError as error:
        line = str(error)
        assert line.isprintable() or not line.isascii()
        assert "\n" not in line
        assert len(line) < 400
