"""What a round is to do, in values. Pure."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from service_record.reporter.answers import Outcome
from service_record.reporter.setting_values import COLLECTOR

HOST_BOOT: Final = "host_boot"
"""The service's slot of logs for boots, where it has one."""
HOST: Final = "host"
"""Its slot of logs for a host, which an upload takes from the logs before the reboot."""
SERVICE: Final = "assisted-service"
"""The destination that both slots are of, and whose budget they share."""
NOT_OURS: Final = "not-ours"
GONE: Final = "gone"
"""The endings that the service speaks for by denying the host."""
_MOST_INFO: Final = 2048


class Fact(StrEnum):
    """A fact that the service is told of a host, once. The first two are stages where it knows them."""

    LOCAL = "Booted with local ignition"
    CONTROL_PLANE = "Booted with control plane ignition"
    KEPT = "Boot logs kept on the host"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """A fact for the assisted-service: one PUT of a stage and its information."""

    fact: Fact
    stage: str
    info: str

    @property
    def is_new_stage(self) -> bool:
        return self.stage == self.fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """A bundle for a destination."""

    kind: str
    """A name of the destination that is no secret; of the assisted-service, the type of logs."""
    to: str = field(default="", repr=False)
    """As `ship_to` names it; empty for the assisted-service."""
    most: int
    """Bytes: a larger bundle is not shipped."""
    tries: int = 1
    """How often it may be sent in this round."""
    fingerprint: str
    """What the bundle tells of."""
    last_word: str | None = None
    """The limit that is near, when it is shipped for that."""

    @property
    def destination(self) -> str:
        """Whose budget it takes from."""
        return SERVICE if self.kind in {HOST_BOOT, HOST} else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The reporter's work here is over."""

    rule: str
    reason: str
    clean_up: bool = True
    is_undelivered: bool = False
    """True while a bundle of what is wrong with the host has not arrived: it is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do in this round, in this order. After stage reports or shipments, decide anew."""

    report: tuple[StageReport, ...] = ()
    told: tuple[Fact, ...] = ()
    """Facts that the service has already."""
    gather: bool = False
    """Make a bundle, into the spool. Without it, what is shipped is there already."""
    bundle_bytes: int = 0
    """The most that bundle may have."""
    ship: tuple[Shipment, ...] = ()
    keeps: bool = False
    """True when the bundle in the spool stays there because the service's slot has the agent's logs."""
    stop: Stop | None = None
    quiet: bool = False
    """True when this boot had its time: nobody is asked or told anything."""
    why: tuple[str, ...] = ()
    """The rules that decided, a line each: `NAME: REASON`."""

    @property
    def is_last(self) -> bool:
        """Nothing that this plan does changes what the next would be."""
        return not (self.report or self.told or self.gather or self.ship)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a step of a plan came to."""

    step: StageReport | Shipment
    outcome: Outcome
    size: int = 0
    """Of the bundle, in bytes."""


def info(words: str) -> str:
    """Words as the service can store them: 2048 characters without NUL; it answers 500 to others."""
    return words.replace("\0", "")[:_MOST_INFO]


def kind_of(target: str) -> str:
    """The name of a destination that `ship_to` has: what is secret in a URL is not in it."""
    if target.startswith("/"):
        return f"directory:{target}"
    plain = target.removeprefix(COLLECTOR)
    parts = urlsplit(plain)
    digest = hashlib.sha256(plain.encode()).hexdigest()[:12]
    beginning = "put" if plain == target else "collector"
    return f"{beginning}:{parts.scheme}://{parts.hostname}:{digest}"
