"""The table of settings: a row for each, with its kind, its bounds, and the variables that come before it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from service_record.reporter import setting_values as values

_MIB: Final = 1 << 20
_DAY: Final = 86400.0
SERVICE_LIMIT: Final = 262_144_000
"""The most bytes of a file that the assisted-service takes."""


class Send(StrEnum):
    """The conditions under which bundles are shipped."""

    WHEN_WRONG = "when-wrong"
    """Ship when something is wrong with the host, and as a limit comes near."""
    WHEN_CHANGED = "when-changed"
    """Ship also when something else changed."""
    ALWAYS = "always"
    """Ship in every round."""


class HostLogsPolicy(StrEnum):
    """Use for a bundle of the service's slot for the host's logs, where the agent's own logs are."""

    WHEN_EMPTY = "when-empty"
    """Ship only into a slot without logs, or with a bundle of ours."""
    OVERWRITE = "overwrite"
    """Ship in the place of the agent's logs, too."""
    NEVER = "never"


class Stages(StrEnum):
    """The way to report facts: in stages of their own, or as information on a known stage."""

    AUTO = "auto"
    """Report in stages of their own where the service takes those."""
    NEW = "new"
    """Report in stages of their own, or not at all."""
    NEVER = "never"
    """Report as information on the current stage."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table of settings."""

    name: str
    """The key in the file, behind its section and a dot where it has one."""
    read: Callable[[object], Any]
    """The value; ValueError says what it has to be."""
    says: str
    """The description in the table of docs/boot-reporter.md."""
    environment: tuple[str, ...] = ()
    """Variables that come before the file; the first that is set counts."""
    read_variable: Callable[[object], Any] | None = None
    least: float | None = None
    most: float | None = None

    def value(self, raw: object, *, is_variable: bool = False) -> Any:
        """Return the value, within its bounds; raises ValueError."""
        read = self.read_variable if is_variable and self.read_variable else self.read
        result = read(raw)
        if self.least is not None and not self.least <= result:
            raise ValueError(f"{values.quoted(raw)} is too little; it is at least {self.least:,.0f}")
        if self.most is not None and not result <= self.most:
            raise ValueError(f"{values.quoted(raw)} is too much; it is at most {self.most:,.0f}")
        return result


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"{values.quoted(value)} is not one of {', '.join(words)}")
        return str(value)

    return read


def _parts_to_keep(value: object) -> tuple[str, ...]:
    return tuple(_one_of("settings", "spool", "state", "units")(word) for word in values.texts(value))


def _send(value: object) -> Send:
    return Send(_one_of(*Send)(value))


def _host_logs(value: object) -> HostLogsPolicy:
    return HostLogsPolicy(_one_of(*HostLogsPolicy)(value))


def _stages(value: object) -> Stages:
    return Stages(_one_of(*Stages)(value))


SETTINGS: Final = (
    Setting("assisted_service.url", values.service_url, "the assisted-service", ("ASSISTED_SERVICE_URL",)),
    Setting("assisted_service.cluster_id", values.uuid, "its cluster", ("CLUSTER_ID",)),
    Setting("assisted_service.infra_env_id", values.uuid, "its infra-env", ("INFRA_ENV_ID",)),
    Setting("assisted_service.host_id", values.uuid, "this host", ("HOST_ID",)),
    Setting(
        "assisted_service.ca_bundle",
        values.path,
        "PEM file of certificates trusted beside the system's; without it "
        "`/etc/assisted-service/service-ca-cert.crt`, where that is",
        ("ASSISTED_SERVICE_CA_BUNDLE",),
    ),
    Setting("proxies.http", values.proxy_url, "proxy for http", ("HTTP_PROXY", "http_proxy")),
    Setting("proxies.https", values.proxy_url, "proxy for https", ("HTTPS_PROXY", "https_proxy")),
    Setting(
        "proxies.no_proxy",
        values.hosts,
        "hosts, domains and networks without proxy",
        ("NO_PROXY", "no_proxy"),
    ),
    Setting(
        "ship_to",
        values.destinations,
        "more destinations of bundles: directories, URLs to PUT to, `collector+https://HOST`",
    ),
    Setting(
        "records_to",
        values.collectors,
        "collectors that are sent records as they are written, each minute: `collector+https://HOST[/NAME]`, "
        "NAME being what it calls this host; without it `host_id`",
    ),
    Setting(
        "frequency",
        values.seconds,
        "from one round to the next",
        ("LOG_SEND_FREQUENCY_IN_MINUTES",),
        values.minutes,
        least=60,
        most=_DAY,
    ),
    Setting(
        "time_limit",
        values.seconds,
        "how long after a boot there are rounds",
        ("SERVICE_TIMEOUT_MINUTES",),
        values.minutes,
        least=60,
        most=7 * _DAY,
    ),
    Setting(
        "lifetime",
        values.seconds,
        "how long the host may be up, all boots together, until the reporter removes itself",
        least=60,
        most=30 * _DAY,
    ),
    Setting("jitter", values.seconds, "how far apart hosts that boot together call", least=0, most=3600),
    Setting(
        "send",
        _send,
        "when bundles are shipped: `when-wrong` (also as the limit comes near), `when-changed` (also "
        "whenever something changed), `always` (in every round)",
    ),
    Setting(
        "host_logs",
        _host_logs,
        "the service's slot for the host's logs, which is used where it refuses `host_boot`: `when-empty` "
        "(never in the place of the agent's logs), `overwrite` (in their place), `never`",
    ),
    Setting(
        "stages",
        _stages,
        "how facts are reported: `auto`, `new` (as stages only), `never` (as information on the stage only)",
    ),
    Setting("redact", values.switch, "take secrets out of bundles"),
    Setting(
        "disk_bytes",
        values.size,
        "what a round may take of the disk",
        least=_MIB,
        most=SERVICE_LIMIT,
    ),
    Setting("upload_bytes", values.size, "the largest bundle", least=1 << 16, most=SERVICE_LIMIT),
    Setting("uploads_per_boot", values.whole_number, "uploads to a destination in a boot", least=0, most=100),
    Setting("uploads", values.whole_number, "uploads to a destination in all", least=0, most=100),
    Setting("total_bytes", values.size, "bytes of uploads to a destination in all", least=0, most=1 << 40),
    Setting(
        "keep_after", _parts_to_keep, "what stays after clean-up, of `settings`, `spool`, `state`, `units`"
    ),
    Setting("remove", values.paths, "more files to remove at clean-up, for instance the program"),
    Setting("api_url", values.service_url, "the cluster's API, whose reachability is looked at"),
)
