"""`service-record mcp`, asked by a client of the protocol over a real process."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from service_record.record.entry import Phase
from tests.archives import member, record, tar
from tests.builders import entry, failed_run
from tests.command_line import PROGRAM, environment

if TYPE_CHECKING:
    from mcp.client import Client

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
NO_IMAGE = "Error: reading manifest 1 in quay.io/x: manifest unknown"
LOG = "".join(f"line {n}\n" for n in range(1, 1001)).encode()


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A good and a bad bundle."""
    place = tmp_path / "shelf"
    place.mkdir()
    log = member("log-bundle-1/bootstrap/journals/kernel.log", LOG + f"token {SECRET}\n".encode())
    bad = tar(record("bootkube", *failed_run(error_message=f"{NO_IMAGE}\nwith {SECRET}")), log)
    good = tar(record("bootkube", entry(), entry(Phase.SERVICE_END, 5)))
    (place / "bad.tar.gz").write_bytes(gzip.compress(bad))
    (place / "good.tar.gz").write_bytes(gzip.compress(good))
    return place


def over_mcp(questions: Callable[["Client"], Awaitable[Any]], *sources: object) -> Any:
    """Ask a server of these sources questions, and return the answer to them."""
    # Imported here: it takes a second, and each process of a run reads this file.
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    command, arguments = PROGRAM[0], [*PROGRAM[1:], "mcp", *map(str, sources)]

    async def run() -> Any:
        parameters = StdioServerParameters(command=command, args=arguments, env=dict(environment()))
        async with Client(parameters) as client:
            return await questions(client)

    return asyncio.run(asyncio.wait_for(run(), 90))


async def text(client: "Client", tool: str, **arguments: object) -> str:
    answer = await client.call_tool(tool, arguments)
    told: str = answer.content[0].text  # type: ignore[union-attr]
    return f"error: {told}" if answer.is_error else told


def test_an_assistant_finds_the_cause_and_reads_around_it(shelf: Path) -> None:
    bad, good = str(shelf / "bad.tar.gz"), str(shelf / "good.tar.gz")

    async def questions(client: "Client") -> dict[str, str]:
        return {
            "sources": await text(client, "list_sources"),
            "services": await text(client, "list_services", source=bad),
            "service": await text(client, "show_service", source=bad, service="bootkube"),
            "cause": await text(client, "analyze", source=bad),
            "lines": await text(
                client, "read_lines", source=bad, file="journals/kernel.log", line=500, around=1
            ),
            "end": await text(
                client, "read_lines", source=bad, file="journals/kernel.log", line=1001, around=0
            ),
            "difference": await text(client, "compare", good=good, bad=bad),
        }

    told = over_mcp(questions, shelf)

    assert json.loads(told["sources"]) == [str(shelf), bad, good]
    (service,) = json.loads(told["services"])
    assert (service["service"], service["outcome"], service["attempts"]) == ("bootkube", "failure", 1)
    assert json.loads(told["cause"])["root"]["cause"]["name"] == "image-not-found"
    assert "manifest unknown" in told["service"]
    assert told["lines"] == "499: line 499\n500: line 500\n501: line 501"
    assert told["end"] == "1001: token <redacted:service-token>"
    assert "bootkube" in told["difference"]
    assert SECRET not in "".join(told.values())


def test_an_assistant_reads_only_what_it_was_given(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("private")

    async def questions(client: "Client") -> list[str]:
        places = [str(tmp_path), str(shelf / "../private.txt"), "/etc", "this host", "collector://elsewhere"]
        return [
            *[await text(client, "analyze", source=place) for place in places],
            await text(client, "read_lines", source=str(shelf), file="../private.txt"),
            await text(client, "ask_collector", source=str(shelf)),
            await text(client, "show_service", source=str(shelf / "bad.tar.gz"), service="--help"),
        ]

    told = over_mcp(questions, shelf)

    assert [answer.partition(": ")[0] for answer in told] == ["error"] * len(told)
    assert not [answer for answer in told if "private" in answer and "none of the sources" not in answer][:-1]


def test_every_tool_says_that_it_changes_nothing(shelf: Path) -> None:
    async def questions(client: "Client") -> Any:
        return (await client.list_tools()).tools

    tools = over_mcp(questions, shelf)
    assert len(tools) == 7
    assert all(tool.annotations and tool.annotations.read_only_hint and tool.description for tool in tools)
