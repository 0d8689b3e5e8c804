"""The JSON documents of a collector's HTTP interface that this package both writes and reads. Pure.

Each is declared once. The collector fills them from its database, sends them, shows them on its pages, and
describes them in its OpenAPI document. The clients decode an answer as the same type. Times are seconds since
1970 by the collector's clock. Documents that only the collector handles are declared beside their handlers.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")
LONGEST_NAME: Final = 255
"""Maximum number of characters of names, such as those of services and stages."""
Time = Annotated[float, Meta(ge=0, le=1e11)]
"""The year has at most four digits, so clients can show it."""
Percentage = Annotated[float, Meta(ge=0, le=100)]


# Hosts


class HostSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A host and its latest build, for a row of a table."""

    name: str
    group: str
    release: str
    hardware: str
    """Vendor and model of the machine; empty if unknown."""
    build: int
    """0 if the host has reported no step yet."""
    action: str
    percentage: Percentage | None
    message: str
    started_at: Time | None
    updated_at: Time | None
    ended_at: Time | None
    verdict: str
    reason: str
    verdict_since: Time | None
    cause: str
    """A key that hosts in the same trouble share; empty for hosts without trouble."""
    revision: int
    """Increases with every change of the host."""

    @property
    def is_bad(self) -> bool:
        return self.verdict not in {"progressing", "done"}

    @property
    def stopped_at(self) -> float | None:
        """Return the end of the build, or its last report if it cannot continue by itself.

        None while it is running.
        """
        return self.ended_at or (self.updated_at if self.verdict in {"failed", "silent"} else None)

    def seconds(self, now: float) -> float | None:
        """Return the duration of the build until it stopped, or until now. None before its first report."""
        if self.started_at is None:
            return None
        return max((self.stopped_at or now) - self.started_at, 0.0)


class BuildSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One build of a host."""

    number: int
    key: str
    action: str
    release: str
    started_at: Time
    updated_at: Time
    ended_at: Time | None
    verdict: str
    reason: str

    @property
    def stopped_at(self) -> float:
        return self.ended_at or self.updated_at

    @property
    def seconds(self) -> float:
        return max(self.stopped_at - self.started_at, 0.0)


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the fleet."""

    hosts: tuple[HostSummary, ...]
    counts: Mapping[str, int]
    """The number of hosts of each verdict, among those that pass the other filters."""
    total: int
    """The number of hosts that pass all filters."""
    now: Time
    """The time of the collector's clock."""
    earlier: Mapping[str, tuple[BuildSummary, ...]] = {}
    """Name of a host -> its earlier builds of the last 30 days, latest first, if they were requested."""
    next: str = ""
    """The value of `after` for the next page; empty on the last page."""


class ShownStep(msgspec.Struct, frozen=True, kw_only=True):
    """A reported step."""

    id: int
    label: str
    name: str
    status: str
    priority: int
    percentage: float | None
    action: str
    logs: str
    """At most the last 4,000 characters. The page of the host links to all logs."""
    logs_length: int
    """Number of characters of all stored logs."""
    notes: str
    boot_id: str
    host_time: float | None
    """The time by the host's clock, which may be wrong."""
    received_at: Time
    is_known: bool
    """False if an operator defined the steps, and this is not one of them."""


class Repeated(msgspec.Struct, Generic[T], frozen=True):
    """A round of one or more reports, and how often it was repeated in a row."""

    first: tuple[T, ...]
    """The first round."""
    latest: tuple[T, ...]
    count: int = 1
    between: tuple[T, ...] = ()
    """The reports of all other rounds, in order."""

    @property
    def reports(self) -> tuple[T, ...]:
        """Return all reports, in order."""
        return (*self.first, *self.between, *self.latest) if self.count > 1 else self.first


class ShownBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle of the host, or a rendered template."""

    id: int
    build: int
    kind: str
    name: str
    size: int
    sha256: str
    received_at: Time
    is_indexed: bool
    verdict: str
    reason: str
    boots: str
    left_out: str


class ShownLastWords(msgspec.Struct, frozen=True, kw_only=True):
    """The lines that a service of the host printed last."""

    service: str
    stage: str
    """The stage that was running at the time; empty if none was."""
    text: str
    received_at: Time


class ShownEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a host or a cluster, as clients of an assisted-service send it."""

    received_at: Time
    severity: str
    name: str
    message: str


class ShownInstallation(msgspec.Struct, frozen=True, kw_only=True):
    """The host's part in the installation of a cluster."""

    id: str
    cluster_id: str
    infra_env_id: str
    role: str
    is_bootstrap: bool
    is_single_node: bool
    status: str
    """The host's state at the time of the query."""
    status_info: str
    meaning: str
    """The meaning of the state, in one sentence."""
    stage: str
    info: str
    stage_started_at: Time
    stage_updated_at: Time
    checked_in_at: Time | None
    """The time of its agent's last call."""
    logs_state: str
    event_at: float | None
    """The time of the newest event that reported a state, by the assisted-service's clock."""


class HostDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A host, with the steps of one of its builds. Times are seconds since 1970 by the collector's clock."""

    now: Time
    """The time of the query."""
    summary: HostSummary
    first_seen: Time
    last_seen: Time
    builds: tuple[BuildSummary, ...]
    """Latest first."""
    shown_build: int
    """The number of the build that the steps belong to; 0 before the first build."""
    steps: tuple[Repeated[ShownStep], ...]
    """The latest 500 steps, oldest first. Repeated rounds of steps are combined."""
    last_words: tuple[ShownLastWords, ...]
    """What each service printed last in the build `shown_build`, the most recent first."""
    bundles: tuple[ShownBundle, ...]
    """Latest first."""
    events: tuple[ShownEvent, ...]
    """Latest first."""
    installation: ShownInstallation | None


# Clusters


class ClusterSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, for a row of a table."""

    id: str
    name: str
    status: str
    """A state of the assisted-service, such as `installing`."""
    reason: str
    since: Time | None
    updated_at: Time | None
    revision: int
    """Increases with every change of the cluster."""
    hosts: int
    needed_control_planes: int
    installed_control_planes: int
    defined_workers: int
    installed_workers: int
    joined: int
    """Number of nodes that have joined the cluster."""
    csrs_approved: int | None
    """Certificate requests that the controller approved; None if it did not report the number."""
    finalizing_stage: str
    completion: str
    """The controller's final report: `success` or `failure`; empty until then."""
    completion_info: str
    logs_state: str

    @property
    def label(self) -> str:
        return self.name or self.id


class Clusters(msgspec.Struct, frozen=True, kw_only=True):
    """Clusters, those that need action first."""

    clusters: tuple[ClusterSummary, ...]
    now: Time
    """The time of the collector's clock."""


# Records


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of a record file; its bytes are base64 in JSON."""

    service: Annotated[str, Meta(pattern=r"^[^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,249}$(?!\n)")]
    """The service's name: the file name without its suffix."""
    file: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,64}$(?!\n)")]
    """Distinguishes a file from its replacement."""
    offset: Annotated[int, Meta(ge=0, le=1 << 50)]
    data: bytes

    @property
    def end(self) -> int:
        """Return the offset at the collector after it has stored this piece."""
        return self.offset + len(self.data)


MOST_PIECES: Final = 256


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """Records sent at once: all are stored, or none."""

    pieces: Annotated[list[Piece], Meta(max_length=MOST_PIECES)]


class StoredFile(msgspec.Struct, frozen=True):
    """A record file, and the offset from which to send it."""

    service: str
    file: str
    offset: Annotated[int, Meta(ge=0)]


class StoredBatch(msgspec.Struct, frozen=True):
    """The result of storing a batch."""

    host: str
    files: tuple[StoredFile, ...]


class OffsetsProblem(msgspec.Struct, frozen=True):
    """A batch that does not begin at the end of the stored data; RFC 9457."""

    title: str
    status: int
    detail: str
    files: tuple[StoredFile, ...]


class StoredService(msgspec.Struct, frozen=True):
    """A service with a record."""

    service: str
    bytes: int
    received_at: Time


class StoredRecords(msgspec.Struct, frozen=True):
    """The records that a host has sent."""

    host: str
    services: tuple[StoredService, ...]
    files: tuple[StoredFile, ...]
    bundle: int | None
    """The latest bundle with records in it."""


# Last words

MOST_LINES: Final = 20
LONGEST_LINE: Final = 400
"""Maximum number of characters of a line."""


class LastWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lines that a service printed last. Without lines, the stored ones are deleted."""

    service: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    lines: Annotated[list[Annotated[str, Meta(max_length=LONGEST_LINE)]], Meta(max_length=MOST_LINES)]
    """Oldest first."""
    stage: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    """The stage that is running; empty if none is."""
