"""What becomes of the override of each host or discovery image, before anything is sent. Pure."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from service_record.deploy.assisted.overrides import prepared, undone
from service_record.deploy.assisted.service import Recipient
from service_record.deploy.ignition.fault import BadConfigError
from service_record.deploy.ignition.reading import Config


class PlanError(Exception):
    """An override that cannot be changed; one line says whose, and why."""


@dataclass(frozen=True, slots=True)
class OverrideChange:
    """One override as it is to be."""

    recipient: Recipient
    text: str
    kept: tuple[str, ...] = ()
    """What of ours somebody has changed since, and undoing leaves there."""

    @property
    def is_needed(self) -> bool:
        return self.text != self.recipient.override


def plan_preparing(
    recipients: Iterable[Recipient], ours: Callable[[Recipient], Config], replacing: Collection[str]
) -> tuple[OverrideChange, ...]:
    """Return each override with what `ours` makes for its recipient. Raises PlanError."""

    def change(recipient: Recipient) -> OverrideChange:
        return OverrideChange(recipient, prepared(recipient.override, ours(recipient), replacing))

    return tuple(_told(recipient, change) for recipient in recipients)


def plan_undoing(recipients: Iterable[Recipient]) -> tuple[OverrideChange, ...]:
    """Return each override as it was before. Raises PlanError."""

    def change(recipient: Recipient) -> OverrideChange:
        before = undone(recipient.override)
        return OverrideChange(recipient, before.text, before.kept)

    return tuple(_told(recipient, change) for recipient in recipients)


def _told(recipient: Recipient, change: Callable[[Recipient], OverrideChange]) -> OverrideChange:
    try:
        return change(recipient)
    except BadConfigError as error:
        raise PlanError(f"{recipient}: override: {error}") from None
