"""Settings of `service-record collector serve`."""

from dataclasses import dataclass, field
from pathlib import Path

from service_record.collector.domain.silence import DEFAULT
from service_record.collector.domain.verdicts import LOOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """A rate limit: requests per second, and the size of a burst."""

    per_second: float = 50.0
    burst: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """The settings of a collector."""

    data: Path
    """The data folder."""
    database: str = ""
    """URL of PostgreSQL; empty for SQLite in `data`."""
    objects: str = ""
    """URL of an object store for bundles, such as `s3://bucket/prefix`; empty for a folder in `data`."""
    host: str = "127.0.0.1"
    port: int = 8474
    """0 for any free port."""
    certificate: Path | None = None
    key: Path | None = None
    steps: tuple[Path, ...] = ()
    """Files that define the accepted steps. Other steps are refused, but stored."""
    budget: float = DEFAULT
    """Seconds without a report after which a host is stuck, unless its step has another limit."""
    loop_after: int = LOOP
    """Number of starts of a step, or of boots, without progress that count as a loop."""
    rates: Rates = Rates()
    guesses: Rates = Rates(per_second=0.5, burst=50)
    """The rate at which one address may present invalid tokens."""
    most_body: int = 256 * 1024
    """Maximum size of a request in bytes, except for bundles and records."""
    most_bundle: int = 250 * 1024 * 1024
    """Maximum size of a bundle in bytes, as in the assisted-service."""
    most_records: int = 64 * 1024 * 1024
    """Maximum size of all live records of one host in bytes."""
    most_streams: int = 500
    """Maximum number of event streams of a process. Further viewers poll."""
    seconds: float = 30.0
    """Time limit for the body of a request, except for bundles."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of trusted proxies for X-Forwarded-For and -Proto."""
    log_level: str = "info"
    keep_days: float = 0.0
    """Builds are deleted after this number of days, except the first and last failure and the latest build of
    each host. 0: never.
    """
    keep_bytes: int = 0
    """Maximum size in bytes of all stored data. The oldest builds are deleted above it. 0: no limit."""
    webhook: str = ""
    """The URL that receives changes of verdicts; empty for none."""
    webhook_secret: bytes = field(default=b"", repr=False)
    """The key that signs messages; empty for no signature."""
    webhook_secret_file: Path | None = None
    """The file of the secret. It is read again on SIGHUP."""
    notices: Path | None = None
    """TOML file with further destinations of notices."""
