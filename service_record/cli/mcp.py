"""`service-record mcp`: the questions of the reading verbs for assistants, by the Model Context Protocol."""

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from service_record.bundle.contents import Content, archive_contents, directory_contents
from service_record.cli import require_extra
from service_record.http.address import is_collector
from service_record.record.directory import Records
from service_record.record.visible import visible
from service_record.redaction import LeakError, Rules, known_secrets, outgoing_text
from service_record.version import __version__

if TYPE_CHECKING:
    from mcp.server import MCPServer

_SECONDS: Final = 60.0
"""The time limit of one answer."""
_MAX_CHARACTERS: Final = 100_000
"""The limit of one answer."""
_MAX_AROUND: Final = 200
"""Lines before and behind the one that is asked for."""
_MAX_LINE: Final = 2_000
_MAX_SERVICES: Final = 500
_PROGRAM: Final = (sys.executable, "-c", "from service_record.cli import main; main()")
_HERE: Final = "this host"
_INSTRUCTIONS: Final = """\
Records of what the services of a host did while it installed itself, and bundles with its logs.
Ask `list_sources` first, then `analyze` one of them: it names the root cause with its evidence, and the place
of each line. `read_lines` shows the lines around a place. A cause is certain only when its rank is `cause`.
Nothing can be changed through these tools, and secrets are masked as <redacted:...>."""


class QuestionError(Exception):
    """The reason why a question has no answer, in one line."""


@click.command("mcp")
@click.argument("sources", metavar="[SOURCE]...", nargs=-1)
@click.option(
    "--token-file", type=click.Path(path_type=Path, dir_okay=False), help="A reader's token of a collector."
)
def command(*, sources: tuple[str, ...], token_file: Path | None) -> None:
    """Answer assistants by the Model Context Protocol (MCP).

    It speaks on standard input and output, as assistants start such servers.

    A SOURCE is a directory, a bundle, a folder of bundles, or a collector as collector://HOST; without one it
    is this host. An assistant can read those and nothing else. It can change nothing, and secrets are masked.

    \b
    Examples:
      service-record mcp                          this host
      service-record mcp bundles/ collector://fleet.example
    """  # noqa: D301  # click takes a backspace for a paragraph that stays as it is
    require_extra("mcp")
    server(Questions(sources, token_file)).run()


class Questions:
    """The reading verbs over the sources that may be read."""

    def __init__(self, sources: Sequence[str], token_file: Path | None = None) -> None:
        self._sources = tuple(sources) or (_HERE,)
        self._token_file = token_file
        self._rules = Rules(known_secrets(Path("/"), os.environ).secrets)

    def names(self) -> list[str]:
        """Return the readable names: the sources, and the files in those that are folders of bundles."""
        return list(islice(self._names(), _MAX_SERVICES))

    def _names(self) -> Iterator[str]:
        for source in self._sources:
            yield source
            if source != _HERE and not is_collector(source) and Path(source).is_dir():
                files = (path for path in Path(source).rglob("*.t*") if path.is_file())
                yield from sorted(str(path) for path in files if not path.is_symlink())

    def places(self, source: str) -> list[str]:
        """Return the options that name a source. Raises QuestionError if it may not be read."""
        if source == _HERE and _HERE in self._sources:
            return []
        if is_collector(source):
            collectors = [one.rstrip("/") for one in self._sources if is_collector(one)]
            allowed = any(source.rstrip("/") == one or source.startswith(f"{one}/") for one in collectors)
        else:
            path = Path(source).resolve()
            roots = [Path(one).resolve() for one in self._sources if one != _HERE and not is_collector(one)]
            allowed = any(path == root or root in path.parents for root in roots)
        if not allowed:
            raise QuestionError(f"{source} is not one of the sources; list_sources names them")
        return ["--from", source]

    async def ask(self, *arguments: str) -> Any:
        """Return the JSON that a verb prints, without secrets. Raises QuestionError."""
        child = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment(),
        )
        try:
            out, error = await asyncio.wait_for(child.communicate(), _SECONDS)
        except TimeoutError:
            child.kill()
            await child.wait()
            raise QuestionError(f"no answer within {_SECONDS:g} s") from None
        if not out:
            lines = error.decode(errors="replace").strip().splitlines()
            raise QuestionError(self.masked(lines[-1] if lines else f"exit {child.returncode}"))
        return json.loads(self.masked(out.decode(errors="replace")))

    def _environment(self) -> dict[str, str]:
        token = {"SERVICE_RECORD_TOKEN_FILE": str(self._token_file)} if self._token_file else {}
        return {**os.environ, **token}

    def masked(self, text: str) -> str:
        """Return a text without secrets. Raises QuestionError if one would be left."""
        try:
            return outgoing_text(text, self._rules)
        except LeakError as leak:
            raise QuestionError(f"refused: {leak}") from None

    def lines(self, source: str, file: str, line: int, around: int) -> str:
        """Return the lines around a place of a bundle. Raises QuestionError."""
        places = self.places(source)
        if not places or is_collector(source):
            raise QuestionError("lines are read from bundles and directories; give one of those as a source")
        content = next((one for one in _contents(Path(source)) if _is_named(one.path, file)), None)
        if content is None:
            raise QuestionError(f"{source} has no file {file}; analyze names the files of its evidence")
        first = max(line - around, 1)
        numbered = enumerate(_lines_of(content), 1)
        excerpt = islice(numbered, first - 1, line + around)
        text = "\n".join(f"{number}: {visible(text[:_MAX_LINE])}" for number, text in excerpt)
        return bounded(self.masked(text) or f"{file} has no line {line}")


def _contents(path: Path) -> Iterator[Content]:
    if path.is_dir():
        yield from directory_contents(path, lambda _: None)
        return
    with path.open("rb") as stream:
        yield from archive_contents(stream, path.name, path.stat().st_mtime, lambda _: None)


def _is_named(path: str, query: str) -> bool:
    """Return whether a name means this file of a bundle: its path, or the end of it."""
    return path == query or path.endswith(f"/{query.lstrip('/')}")


def _lines_of(content: Content) -> Iterator[str]:
    rest = b""
    while piece := content.read(1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
    if rest:
        yield rest.decode(errors="replace")


def bounded(text: str) -> str:
    """Return a text that is short enough for an answer, and says when its end is missing."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    return f"{text[:_MAX_CHARACTERS]}\n[cut: {len(text) - _MAX_CHARACTERS} more characters]"


def _as_text(value: object) -> str:
    return bounded(json.dumps(value, ensure_ascii=False, indent=1))


def _services(document: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield a few facts of each service of a document of `show`."""
    for service in document.get("services", ())[:_MAX_SERVICES]:
        runs = service.get("runs") or [{}]
        latest = runs[-1]
        facts = {"service": service.get("service"), "outcome": service.get("outcome"), "attempts": len(runs)}
        yield facts | {name: latest[name] for name in ("stage", "started", "duration") if latest.get(name)}


def server(questions: Questions) -> "MCPServer":
    """Return a server whose tools ask these questions."""
    from mcp.server import MCPServer  # an extra
    from mcp.types import ToolAnnotations
    from pydantic import Field

    source_type = Annotated[str, Field(description="One of the names that list_sources gives.")]
    mcp = MCPServer("service-record", instructions=_INSTRUCTIONS, version=__version__)
    tool = mcp.tool(annotations=ToolAnnotations(read_only_hint=True))

    async def list_sources() -> str:
        """List what can be read: hosts, bundles, folders of bundles, collectors."""
        return _as_text(questions.names())

    async def list_services(source: source_type) -> str:
        """List the services of a host with the outcome of each, failures first."""
        document = await questions.ask("show", "-o", "json", *questions.places(source))
        return _as_text(list(_services(document)))

    async def show_service(source: source_type, service: str) -> str:
        """Show the runs of one service: stages, times, exit codes, the failing line and its message."""
        return _as_text(await questions.ask("show", "-o", "json", *questions.places(source), "--", service))

    async def analyze(source: source_type) -> str:
        """Say what is wrong with a host: the verdict, the root cause, its evidence, and what to do next."""
        return _as_text(await questions.ask("analyze", "-o", "json", *questions.places(source)))

    async def read_lines(source: source_type, file: str, line: int = 1, around: int = 20) -> str:
        """Read the lines around a place that `analyze` names, as `journals/kernel.log` and 212."""
        return await asyncio.to_thread(
            questions.lines, source, file, max(line, 1), min(max(around, 0), _MAX_AROUND)
        )

    async def compare(good: source_type, bad: source_type) -> str:
        """Compare a bad host with a good one: steps that are missing, slower, or failed only there."""
        places = [(questions.places(source) or ["", str(Records().directory)])[1] for source in (good, bad)]
        return _as_text(await questions.ask("diff", "-o", "json", "--", *places))

    async def ask_collector(source: source_type) -> str:
        """List the hosts that a collector knows, those with trouble first."""
        if not is_collector(source):
            raise QuestionError(f"{source} is not a collector; give a collector's URL")
        return _as_text(await questions.ask("hosts", "-o", "json", *questions.places(source)))

    for function in (list_sources, list_services, show_service, analyze, read_lines, compare, ask_collector):
        tool(function)
    return mcp
