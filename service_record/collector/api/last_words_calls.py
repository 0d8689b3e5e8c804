"""The calls that receive the lines that a service printed last."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from service_record.collector.api.answering import NoContent, Refusal
from service_record.collector.api.operation import HOSTS, TEXT, Short, operation
from service_record.collector.api.serving import Serving, caller, host_name, plain_body
from service_record.collector.domain.steps import readable
from service_record.collector.store.installations import Arrival
from service_record.collector.store.last_words import write_last_words
from service_record.http.collector_answers import LONGEST_LINE, LONGEST_NAME, MOST_LINES, LastWords
from service_record.redaction import LeakError, outgoing_text
from service_record.redaction.rules import Rules


@operation("PUT /api/v1/hosts/{host}/last-words", who=HOSTS, body=LastWords, counted="last words")
async def put_last_words(request: Request) -> NoContent:
    """Send the last lines that a service printed. They replace its earlier ones.

    They replace the earlier ones of the same service. The sender masks secrets. Secrets with a known form
    are masked here too, because other programs may send lines.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    try:
        words = msgspec.json.decode(await plain_body(request), type=LastWords)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"the body does not hold last lines: {fault}") from None
    return await _store_words(serving, Arrival(host, grant, serving.collector.now()), words)


class LastWordsQuery(msgspec.Struct, kw_only=True):
    """The parameters of last lines that are sent as text."""

    service: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
    stage: Short = ""


@operation("POST /api/v1/hosts/{host}/last-words", who=HOSTS, body=TEXT, counted="last words")
async def post_last_words(request: Request, query: LastWordsQuery) -> NoContent:
    """Send the last lines that a service printed, as text.

    Shells send it, which can make neither JSON nor a PUT request. The Content-Type may be any. Only the last
    lines are kept.
    """
    serving, grant = caller(request)
    host = host_name(request.path_params["host"])
    body = (await plain_body(request)).decode(errors="replace")
    lines = [line[:LONGEST_LINE] for line in body.splitlines() if line.strip()][-MOST_LINES:]
    words = LastWords(query.service, lines, query.stage)
    return await _store_words(serving, Arrival(host, grant, serving.collector.now()), words)


async def _store_words(serving: Serving, arrival: Arrival, words: LastWords) -> NoContent:
    words = msgspec.structs.replace(words, service=readable(words.service), stage=readable(words.stage))
    text = await run_in_threadpool(_mask_secrets, words.lines)
    await serving.change(lambda connection: write_last_words(connection, arrival, words, text))
    return NoContent()


def _mask_secrets(lines: list[str]) -> str:
    """Return the lines as one text without secrets, or a remark in their place if one cannot be masked."""
    try:
        return outgoing_text("\n".join(map(readable, lines)), Rules(())).strip("\n")
    except LeakError:
        return "(not stored: a secret in these lines could not be masked)"
