"""What a host is given by Ignition, by its role."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from service_record.deploy.contents import HOST, Item, Option, closing, contents

ROLES: Final = ("master", "worker", "bootstrap", "single-node")
PROGRAM: Final = f"{HOST.programs}/service-record"
"""Where the units of the reporter look for it."""
CA_BUNDLE: Final = "/etc/service-record/ca.crt"
SETTINGS: Final = "/etc/service-record/reporter.toml"
TOKEN: Final = "/etc/service-record/token"  # noqa: S105  # where it is, not what
CLOSED_ON_BOOTSTRAP: Final = (
    *("release-image", "crio-configure", "kubelet"),
    *("bootkube", "approve-csr", "progress"),
)
"""The services of OpenShift's bootstrap host that record themselves, by docs/openshift.md."""
_FOR_ROOT: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be on the host beside the shim."""

    role: str
    closes: tuple[str, ...] = ()
    """Services whose records systemd closes, whatever they know of being recorded."""
    all_services: bool = False
    array: bool = False
    settings: str | None = None
    """Of the reporter; without them it stays away."""
    token: bytes | None = field(default=None, repr=False)
    ca_bundle: bytes | None = None
    program: bytes | None = field(default=None, repr=False)
    """The reporter as one executable file."""


def delivered(wanted: Wanted) -> tuple[Item, ...]:
    """All of it, by path. The bootstrap host records arrays, and has its services closed."""
    options = {
        Option.SHIM: True,
        Option.ALL_SERVICES: wanted.all_services,
        Option.ARRAY: wanted.array or wanted.role == "bootstrap",
        Option.REPORTER: wanted.settings is not None,
    }
    items = contents(option for option, is_wanted in options.items() if is_wanted)
    return tuple(sorted([*items, *_drop_ins(wanted), *_of_reporter(wanted)], key=lambda item: item.path))


def _drop_ins(wanted: Wanted) -> Iterator[Item]:
    """Of services by name; where every service is closed, there is nothing to add."""
    if wanted.all_services:
        return
    yield from closing(wanted.closes or (CLOSED_ON_BOOTSTRAP if wanted.role == "bootstrap" else ()))


def _of_reporter(wanted: Wanted) -> Iterator[Item]:
    settings = None if wanted.settings is None else wanted.settings.encode()
    files: Mapping[str, tuple[bytes | None, int]] = {
        SETTINGS: (settings, _FOR_ROOT),
        TOKEN: (wanted.token, _FOR_ROOT),
        CA_BUNDLE: (wanted.ca_bundle, 0o644),
        PROGRAM: (wanted.program, 0o755),
    }
    for path, (data, mode) in files.items():
        if data is not None:
            yield Item(path, Option.REPORTER, data, mode)
