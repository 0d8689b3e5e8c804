"""Settings of `service-record collector serve`. Values only."""

from dataclasses import dataclass, field
from pathlib import Path

from service_record.collector.domain.silence import DEFAULT
from service_record.collector.domain.verdicts import LOOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Requests a second that one token may make, and how many at once, before it is asked to wait."""

    per_second: float = 50.0
    burst: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """The settings of a collector."""

    data: Path
    """The folder of all it keeps, where nothing else is said."""
    database: str = ""
    """A URL of PostgreSQL; empty for SQLite in `data`."""
    objects: str = ""
    """A URL of an object store for bundles, as `s3://bucket/prefix`; empty for a folder in `data`."""
    host: str = "127.0.0.1"
    port: int = 8474
    """0 for any that is free."""
    certificate: Path | None = None
    key: Path | None = None
    steps: tuple[Path, ...] = ()
    """Files with the steps that an operator defined: others are refused, and kept nevertheless."""
    budget: float = DEFAULT
    """Seconds that a host may say nothing before it counts as stuck, where nothing else tells how long."""
    loop_after: int = LOOP
    """Beginnings of one step, or boots, in a row without anything new that are a loop."""
    rates: Rates = Rates()
    guesses: Rates = Rates(per_second=0.5, burst=50)
    """The rate at which one address may present invalid tokens."""
    most_body: int = 256 * 1024
    """Bytes of a request that is no bundle and no record."""
    most_bundle: int = 250 * 1024 * 1024
    """Bytes of a bundle: the assisted-service's own limit."""
    most_records: int = 64 * 1024 * 1024
    """Bytes of all records that one host may send live."""
    most_streams: int = 500
    """Pages that one process keeps live by a stream; those who look at more are told to ask now and then."""
    seconds: float = 30.0
    """The time limit of a request's body without a bundle in it."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of trusted proxies for X-Forwarded-For and -Proto."""
    log_level: str = "info"
    keep_days: float = 0.0
    """The time for which builds are kept that are no host's first or last failure, or its latest; 0: for
    ever.
    """
    keep_bytes: int = 0
    """The size of everything above which the oldest such builds are deleted; 0: no limit."""
    webhook: str = ""
    """The URL that is told of changes of verdicts; empty for none."""
    webhook_secret: bytes = field(default=b"", repr=False)
    """The key that signs news; empty: they are not signed."""
    webhook_secret_file: Path | None = None
    """The file from which that secret is read again on SIGHUP."""
    notices: Path | None = None
    """TOML: the destinations that are notified of changes of verdicts besides."""
