"""The moment as of which a history is judged."""

from datetime import UTC, datetime

from service_record import systemd
from service_record.diagnosis.now import Now, latest_entry
from service_record.history import History
from service_record.source import Source


def now_for(history: History, source: Source) -> Now:
    """The present, where the records are those of this host as it runs; elsewhere the latest entry."""
    boot_id = systemd.boot_id()
    is_here = source.is_home or (boot_id is not None and boot_id in history.boots)
    if source.is_snapshot or not is_here:
        return latest_entry(history)
    return Now(time=datetime.now(UTC), boot_id=boot_id, uptime=systemd.uptime())
