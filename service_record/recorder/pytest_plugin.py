"""A fixture for tests of recorded services. pytest finds this module if the package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from service_record.record.entry import Entry

_OTHER_VARIABLES = (
    *("SERVICE_NAME", "PRE_COMMAND", "POST_COMMAND", "INVOCATION_ID", "SERVICE_RECORD_RUN"),
    *("SERVICE_RECORDS_INBOX", "SERVICE_RECORDS_LAYOUT", "SERVICE_RECORDS_SYNC"),
)
"""Variables with which the host that runs the tests would change what is recorded."""


class RecordedServices:
    """The records that a test has written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def services(self) -> list[str]:
        """Return the names of the recorded services, sorted."""
        from service_record.record.directory import Records

        return Records(self.directory).services()

    def entries(self, service: str) -> list[Entry]:
        """Return the entries of a service, oldest first; empty if it has no record.

        Raises ValueError if the record is damaged.
        """
        from service_record.record.directory import Records
        from service_record.record.entry import Entry

        records = Records(self.directory)
        if service not in records.services():
            return []
        entries: list[Entry] = []
        for piece in records.read(service):
            if not isinstance(piece, Entry):
                raise ValueError(  # noqa: TRY004  # the content is wrong, not a type
                    f"{records.path(service)}, line {piece.line}: {piece.reason}: {piece.text}"
                )
            entries.append(piece)
        return entries


@pytest.fixture
def service_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedServices:
    """Have services record below `tmp_path`, and return the records."""
    for name in _OTHER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "service-records"
    monkeypatch.setenv("SERVICE_RECORDS_DIR", str(directory))
    return RecordedServices(directory)
