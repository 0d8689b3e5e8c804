"""Which boot a verb was asked for."""

from service_record.cli.opening import Unreadable
from service_record.history import History
from service_record.history.selection import ALL_BOOTS, find_boot


def selected_boot(history: History, wanted: str) -> str | None:
    """The id of the boot that `--boot` names; None for all."""
    if wanted == ALL_BOOTS:
        return None
    try:
        return find_boot(history.boots, wanted)
    except LookupError as error:
        raise Unreadable(str(error)) from None
