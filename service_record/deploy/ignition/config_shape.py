"""Which fields a config has, of which types, since which version.

After the tables of the specification, versions 3.1.0 to 3.5.0. As Ignition does, null is taken for absent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from service_record.deploy.ignition.reading import OLDEST, ConfigFault, quoted

_LARGEST: Final = 2**31
"""Nothing that a config counts comes near; 64 bits would let through what fails later."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object."""

    kind: "Kind"
    since: int = OLDEST
    """The minor version that has it first."""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Many:
    """A list of one kind."""

    kind: "Kind"


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """An object."""

    fields: Mapping[str, Field] = field(default_factory=dict)


Kind = type[str] | type[int] | type[bool] | Many | ObjectShape
_NAMES: Final = {str: "a text", int: "a whole number", bool: "true or false"}


def faults_of_shape(value: Any, kind: Kind, minor: int, where: str = "") -> Iterator[ConfigFault]:
    """Where the value is not of this kind, or has fields that this version does not."""
    if isinstance(kind, ObjectShape):
        if not isinstance(value, dict):
            yield ConfigFault(where, f"{quoted(value)} is not an object")
            return
        yield from _faults_of_fields(value, kind, minor, where)
    elif isinstance(kind, Many):
        if not isinstance(value, list):
            yield ConfigFault(where, f"{quoted(value)} is not a list")
            return
        for number, each in enumerate(value):
            yield from faults_of_shape(each, kind.kind, minor, f"{where}[{number}]")
    elif type(value) is not kind:
        yield ConfigFault(where, f"{quoted(value)} is not {_NAMES[kind]}")
    elif isinstance(value, int) and abs(value) >= _LARGEST:
        yield ConfigFault(where, f"{quoted(value)} is too large")


def _faults_of_fields(
    value: dict[str, Any], kind: ObjectShape, minor: int, where: str
) -> Iterator[ConfigFault]:
    for name, inner in value.items():
        place = inside(where, name)
        known = kind.fields.get(name)
        if known is None:
            yield _unknown(name, kind, place)
        elif known.since > minor and inner is not None:
            yield ConfigFault(
                place, f"is known from 3.{known.since}.0 on, and does nothing in 3.{minor}.0; remove it"
            )
        elif inner is not None:
            yield from faults_of_shape(inner, known.kind, minor, place)
    for name, known in kind.fields.items():
        if known.required and value.get(name) is None:
            yield ConfigFault(inside(where, name), "is missing")


def _unknown(name: str, kind: ObjectShape, place: str) -> ConfigFault:
    """Ignition passes over a field it does not know, but takes one whose letters are of another case."""
    same = next((known for known in kind.fields if known.lower() == name.lower()), None)
    if same is not None:
        return ConfigFault(place, f"is taken for {same}; write that")
    near = get_close_matches(name, kind.fields, n=1)
    hint = f"; perhaps {near[0]} is meant" if near else ""
    return ConfigFault(place, f"no such field, Ignition passes over it{hint}", is_warning=True)


def inside(where: str, name: str) -> str:
    """The place of a field in a place."""
    plain = name if name.isidentifier() else quoted(name)
    return f"{where}.{plain}" if where else plain


def _shape(required: str = "", **fields: Kind | Field) -> ObjectShape:
    wanted = required.split()
    rows = {name: kind if isinstance(kind, Field) else Field(kind) for name, kind in fields.items()}
    return ObjectShape(
        {name: Field(row.kind, row.since, required=name in wanted) for name, row in rows.items()}
    )


_HEADER: Final = _shape("name", name=str, value=str)
_RESOURCE: Final = _shape(
    source=str, compression=str, httpHeaders=Many(_HEADER), verification=_shape(hash=str)
)
_OWNER: Final = _shape(id=int, name=str)
_NODE: Final[dict[str, Kind | Field]] = {"path": str, "overwrite": bool, "user": _OWNER, "group": _OWNER}
_CLEVIS: Final = _shape(
    tang=Many(_shape("url", url=str, thumbprint=str, advertisement=Field(str, since=4))),
    tpm2=bool,
    threshold=int,
    custom=_shape(pin=str, config=str, needsNetwork=bool),
)
_LUKS: Final = _shape(
    "name device",
    name=str,
    device=str,
    keyFile=_RESOURCE,
    label=str,
    uuid=str,
    options=Many(str),
    wipeVolume=bool,
    clevis=_CLEVIS,
    discard=Field(bool, since=4),
    openOptions=Field(Many(str), since=4),
    cex=Field(_shape(enabled=bool), since=5),
)
_PARTITION: Final = _shape(
    label=str,
    number=int,
    sizeMiB=int,
    startMiB=int,
    typeGuid=str,
    guid=str,
    wipePartitionEntry=bool,
    shouldExist=bool,
    resize=Field(bool, since=2),
)
_FILESYSTEM: Final = _shape(
    "device",
    device=str,
    format=str,
    path=str,
    wipeFilesystem=bool,
    label=str,
    uuid=str,
    options=Many(str),
    mountOptions=Many(str),
)
_STORAGE: Final = _shape(
    disks=Many(_shape("device", device=str, wipeTable=bool, partitions=Many(_PARTITION))),
    raid=Many(_shape("name", name=str, level=str, devices=Many(str), spares=int, options=Many(str))),
    filesystems=Many(_FILESYSTEM),
    files=Many(_shape("path", **_NODE, contents=_RESOURCE, append=Many(_RESOURCE), mode=int)),
    directories=Many(_shape("path", **_NODE, mode=int)),
    links=Many(_shape("path target", **_NODE, target=str, hard=bool)),
    luks=Field(Many(_LUKS), since=2),
)
_UNIT: Final = _shape(
    "name",
    name=str,
    enabled=bool,
    mask=bool,
    contents=str,
    dropins=Many(_shape("name", name=str, contents=str)),
)
_USER: Final = _shape(
    "name",
    name=str,
    passwordHash=str,
    sshAuthorizedKeys=Many(str),
    uid=int,
    gecos=str,
    homeDir=str,
    noCreateHome=bool,
    primaryGroup=str,
    groups=Many(str),
    noUserGroup=bool,
    noLogInit=bool,
    shell=str,
    system=bool,
    shouldExist=Field(bool, since=2),
)
_GROUP: Final = _shape(
    "name", name=str, gid=int, passwordHash=str, system=bool, shouldExist=Field(bool, since=2)
)
_IGNITION: Final = _shape(
    "version",
    version=str,
    config=_shape(merge=Many(_RESOURCE), replace=_RESOURCE),
    timeouts=_shape(httpResponseHeaders=int, httpTotal=int),
    security=_shape(tls=_shape(certificateAuthorities=Many(_RESOURCE))),
    proxy=_shape(httpProxy=str, httpsProxy=str, noProxy=Many(str)),
)
CONFIG: Final = _shape(
    "ignition",
    ignition=_IGNITION,
    storage=_STORAGE,
    systemd=_shape(units=Many(_UNIT)),
    passwd=_shape(users=Many(_USER), groups=Many(_GROUP)),
    kernelArguments=Field(_shape(shouldExist=Many(str), shouldNotExist=Many(str)), since=3),
)
