"""What is wrong with a config, and where in it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that Ignition refuses, or that it takes and does not do what it looks like."""

    where: str
    """As `storage.files[3].mode`; empty for the config as a whole."""
    what: str
    """With what to do, where that is not plain."""
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class BadConfigError(ValueError):
    """A config that cannot be used; the text is one line."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        more = len(faults) - 1
        rest = f" (and {more} more)" if more else ""
        super().__init__(f"{faults[0]}{rest}")
        self.faults = faults


def quoted(value: object) -> str:
    """A value of a config in a message: on one line, and not long."""
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_LONGEST = 60
