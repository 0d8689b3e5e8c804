"""Send several statements to PostgreSQL in one round trip, as prepared statements of libpq's pipeline mode.

psycopg has a pipeline mode too, but it takes 30 µs of processor time for each statement; this module takes
2 µs. A transaction of reports has about ten statements.
"""

import itertools
from collections.abc import Sequence
from select import POLLIN, POLLOUT
from select import poll as new_poll
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

_NUMBERS: Final = itertools.count()
_GOOD: Final = {ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK}


class Statement(NamedTuple):
    """A statement with its parameters, in PostgreSQL's text format."""

    text: bytes
    """SQL with the parameters `$1`, `$2` and so on."""
    values: Sequence[bytes | None]


def execute(
    driver: "psycopg.Connection[Any]", prepared: dict[bytes, bytes], statements: Sequence[Statement]
) -> list[PGresult]:
    """Execute statements in the transaction of a connection, which begins if there is none.

    `prepared` holds the names of the prepared statements of this connection by their texts. Returns the
    result of each statement. Raises psycopg.Error after the first statement that fails; PostgreSQL does not
    execute those after it.
    """
    if any(value is not None and b"\0" in value for _, values in statements for value in values):
        # libpq would silently send only the part before it.
        raise psycopg.DataError("PostgreSQL cannot store the character NUL")
    server = driver.pgconn
    preparing: dict[int, tuple[bytes, bytes]] = {}
    """Position of a result -> name and text of the statement that it prepares."""
    is_wanted: list[bool] = []
    """For each result, whether it is that of a statement."""
    server.enter_pipeline_mode()
    try:
        if server.transaction_status == TransactionStatus.IDLE:
            server.send_query_params(b"BEGIN", None)
            is_wanted.append(False)
        for text, values in statements:
            name = prepared.get(text)
            if name is None:
                name = b"collector_%d" % next(_NUMBERS)
                server.send_prepare(name, text)
                preparing[len(is_wanted)] = name, text
                is_wanted.append(False)
            server.send_query_prepared(name, values)
            is_wanted.append(True)
        server.pipeline_sync()
        results = _receive(server, len(is_wanted))
    finally:
        # After an error of the connection, libpq refuses this; then the connection is closed anyway.
        if server.status == psycopg.pq.ConnStatus.OK:
            server.exit_pipeline_mode()
    for place, (name, text) in preparing.items():
        if results[place].status in _GOOD:
            prepared[text] = name
    for result in results:
        if result.status not in _GOOD:
            raise error_from_result(result, driver.info.encoding)
    return list(itertools.compress(results, is_wanted))


def _receive(server: PGconn, count: int) -> list[PGresult]:
    """Send what is left to send, and return one result for each of `count` messages."""
    socket = new_poll()
    socket.register(server.socket, POLLIN | POLLOUT)
    while server.flush():  # the server may wait until its answers are read
        if socket.poll()[0][1] & ~POLLOUT:
            server.consume_input()
    socket.modify(server.socket, POLLIN)

    def get_result() -> PGresult | None:
        while server.is_busy():
            socket.poll()
            server.consume_input()
        return server.get_result()

    results = []
    for _ in range(count):
        result = get_result()
        if result is None:
            raise psycopg.OperationalError("the connection to the database was lost")
        results.append(result)
        get_result()  # None: the end of the results of this statement
    get_result()  # the end of the pipeline
    return results
