"""The ends of containers' logs, those of containers that ended first."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from service_record.reporter.gather.model import Begin, GatherError, Pieces, Status, Task
from service_record.reporter.gather.take import Command, output_of

_LINES: Final = 1000
_ENDED: Final = frozenset({"container_exited", "exited", "dead", "stopped"})


@dataclass(frozen=True, slots=True)
class _Container:
    id: str
    name: str
    is_running: bool
    created: str


@dataclass(frozen=True, slots=True)
class ContainerLogs:
    """`<name>-<id>.log` in the collector's directory, for the newest containers of crictl or podman."""

    program: str
    most: int = 40

    def pieces(self, task: Task) -> Pieces:
        """Raises GatherError when the containers cannot be listed, or one's log cannot be had."""
        containers = self._listed(task)
        trouble: list[GatherError] = []
        for container in containers[: self.most]:
            yield Begin(f"{task.collector.member}{container.name}-{container.id[:13]}.log")
            argv = (self.program, "logs", f"--tail={_LINES}", container.id)
            try:
                yield from Command(argv, is_merged=True).pieces(task)
            except GatherError as error:
                if error.status is not Status.FAILED:
                    raise
                trouble.append(GatherError(Status.FAILED, f"{container.name}: {error}"))
        if trouble:
            raise trouble[0]
        if len(containers) > self.most:
            raise GatherError(Status.CUT, f"the newest {self.most} of {len(containers)} containers")

    def _listed(self, task: Task) -> list[_Container]:
        form = "--output=json" if self.program == "crictl" else "--format=json"
        containers = containers_in(output_of((self.program, "ps", "--all", form), task))
        newest_first = sorted(containers, key=lambda each: each.created, reverse=True)
        return sorted(newest_first, key=lambda each: each.is_running)


def containers_in(printed: bytes) -> list[_Container]:
    """The containers that crictl or podman lists. Raises GatherError for what is no such list."""
    try:
        listed = json.loads(printed or b"[]")
    except ValueError as error:
        raise GatherError(Status.FAILED, f"the list of containers is no JSON: {error}") from error
    if isinstance(listed, dict):
        listed = listed.get("containers")
    return list(_understood(listed if isinstance(listed, list) else []))


def _understood(listed: Iterable[Any]) -> Iterator[_Container]:
    for each in listed:
        with suppress(AttributeError, KeyError, IndexError, TypeError):
            container = _of_crictl(each) if "metadata" in each else _of_podman(each)
            if container.id.isalnum():  # it is to be an argument
                yield container


def _of_crictl(each: dict[str, Any]) -> _Container:
    return _container(each["id"], each["metadata"]["name"], each["state"], each["createdAt"])


def _of_podman(each: dict[str, Any]) -> _Container:
    return _container(each["Id"], each["Names"][0], each["State"], each["Created"])


def _container(id_: object, name: object, state: object, created: object) -> _Container:
    is_running = str(state).lower() not in _ENDED
    return _Container(str(id_), str(name).replace("/", "_"), is_running, str(created))
