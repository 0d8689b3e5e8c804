"""Run the boot reporter's collectors on a host in a directory, and write a bundle that is a directory."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from service_record.reporter.gather.gathering import Context, Gathered, GatherRow, gather, manifest

SCRIPT_HEAD: Final = "#!/bin/bash\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\n"
AT: Final = datetime(2026, 11, 21, 2, tzinfo=UTC)


class DirectoryMember:
    """A file of a bundle. Of longer content it keeps the last whole lines, at most `limit` bytes."""

    def __init__(self, limit: int | None) -> None:
        self.written_bytes = 0
        self.data = bytearray()
        self._limit = limit

    @property
    def cut(self) -> int:
        return self.written_bytes - len(self.data)

    def write(self, data: bytes, /) -> None:
        self.written_bytes += len(data)
        self.data += data
        if self._limit is not None and len(self.data) > self._limit:
            del self.data[: -self._limit]
            del self.data[: self.data.find(b"\n") + 1]


class DirectoryBundle:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths: list[str] = []

    @contextmanager
    def member(
        self,
        path: str,
        *,
        limit: int | None = None,
        mtime: float | None = None,
        opening: Callable[[int], bytes] | None = None,
    ) -> Iterator[DirectoryMember]:
        member = DirectoryMember(limit)
        try:
            yield member
        finally:
            before = b"" if not member.cut else b"(cut)\n" if opening is None else opening(member.cut)
            self.add(path, before + member.data)

    def add(self, path: str, data: bytes) -> None:
        place = self.directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.write(data)
        self.paths.append(path)


class Host:
    """A host whose files are below `root`. Its PATH has only the programs that a test adds."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.programs = directory / "programs"
        self.root.mkdir()
        self.programs.mkdir()
        self.bundles = directory / "bundles"

    def file(self, path: str, content: bytes | str = b"") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def program(self, name: str, body: str) -> None:
        """Add a program in bash. The program itself runs with the PATH of this machine."""
        path = self.programs / name
        path.write_text(SCRIPT_HEAD + dedent(body))
        path.chmod(0o755)

    def context(self, **more: Any) -> Context:
        environ = {"PATH": str(self.programs)} | more.pop("environ", {})
        return Context(root=self.root, environ=environ, **more)

    def gather(self, *collectors: GatherRow, seconds: float = 60, **more: Any) -> "Result":
        bundle = DirectoryBundle(self.bundles / str(len(list(self.bundles.glob("*")))))
        bundle.directory.mkdir(parents=True)
        gathered = gather(collectors, self.context(**more), bundle, seconds=seconds)  # type: ignore[arg-type]
        return Result(bundle, gathered)


class Result:
    def __init__(self, bundle: DirectoryBundle, gathered: tuple[Gathered, ...]) -> None:
        self.bundle = bundle
        self.gathered = gathered

    @property
    def only(self) -> Gathered:
        (only,) = self.gathered
        return only

    def get(self, name: str) -> Gathered:
        (found,) = (each for each in self.gathered if each.name == name)
        return found

    def data(self, path: str) -> bytes:
        return (self.bundle.directory / path).read_bytes()

    def manifest(self) -> Any:
        return json.loads(json.dumps(manifest(self.gathered, at=AT, boot_id="b0" * 16, cursor=None)))


def run_collector(
    host: Host, take: object, member: str = "facts.txt", size: int = 1 << 20, **more: object
) -> Result:
    """Run one collector on a host. Its output is the file `member`, or a directory of this name."""
    return host.gather(GatherRow("facts", member, take, bytes=size), **more)  # type: ignore[arg-type]
