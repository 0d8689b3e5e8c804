"""Fetch a host's records from a collector: the live records or, without them, its latest bundle."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BufferedReader

import msgspec

from service_record.http.address import CollectorError, parse_address
from service_record.http.collector_answers import StoredRecords
from service_record.http.collector_client import CollectorClient, connect, host_path
from service_record.record.entry import Piece
from service_record.record.layout import read_entries


class RemoteRecords(msgspec.Struct, frozen=True):
    """The data of a host at a collector: its live records, its latest bundle, or both."""

    records: tuple[tuple[str, Iterable[Piece]], ...] = ()
    bundle: Callable[[], BufferedReader] | None = None
    """Downloads the latest bundle; None if there is no bundle."""


def remote_records(place: str) -> RemoteRecords:
    """Fetch the records of the host in a `collector://` URL. Raises CollectorError, OSError."""
    address = parse_address(place)
    if not address.host:
        raise CollectorError(f"{place}: no host is named; use {place.rstrip('/')}/NAME")
    client = connect(place)
    answer = client.get(host_path(address.host, "records"), StoredRecords)
    if not answer.services and answer.bundle is None:
        raise CollectorError(
            f"{place}: the collector has no records of {address.host}; service-record hosts lists its hosts"
        )
    services = (one.service for one in answer.services)
    records = tuple((service, _read_record(client, address.host, service)) for service in services)
    bundle = host_path(address.host, "bundles", str(answer.bundle))
    return RemoteRecords(records, partial(_download, client, bundle) if answer.bundle is not None else None)


def _read_record(client: CollectorClient, host: str, service: str) -> Iterator[Piece]:
    """Download a record and yield its pieces. Raises OSError before the first piece."""
    try:
        with _download(client, host_path(host, "records", service)) as file:
            yield from read_entries(file)
    except CollectorError as fault:
        raise OSError(errno.EIO, str(fault)) from None


def _download(client: CollectorClient, path: str) -> BufferedReader:
    """Download a path to an unnamed temporary file, and return the open file."""
    with tempfile.TemporaryFile() as file:
        client.download(path, file)
        file.flush()
        file.seek(0)
        return os.fdopen(os.dup(file.fileno()), "rb")
