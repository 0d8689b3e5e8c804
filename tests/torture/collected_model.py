"""What a collector has to know of hosts, after what it has acknowledged to them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from service_record.collector.domain.silence import DEFAULT, SILENT

BUDGET: Final = 600.0
"""Seconds that a step may take of which the operator has said so."""
_FEW: Final = 10
"""Reports of a step below which nothing is learnt of how long it takes."""


@dataclass
class ModelFile:
    """A record file as a host has it, and how much of it was acknowledged."""

    name: str
    content: bytes
    held: int = 0
    at: float = 0.0
    """Time at which the collector heard of it last."""


@dataclass
class ModelBuild:
    """Acknowledged facts of a build."""

    updated_at: float
    key: str = ""
    """Name that its reports give it, from the first that does."""
    steps: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Id -> name and status."""
    bundles: list[tuple[int, str, str]] = field(default_factory=list)
    """The number, kind and SHA-256 of each."""
    fresh: Counter[tuple[str, str]] = field(default_factory=Counter)
    is_complete: bool = False
    failed: str = ""
    """The step that failed and was not done later."""
    last: tuple[str, str] = ("", "")

    def report(
        self, number: int, fields: Mapping[str, Any], status: str, now: float, *, is_strict: bool
    ) -> None:
        """Take a step in, under that number; `is_strict` where the operator has said which is the last."""
        name, far = fields["name"], fields.get("percentage", 0)
        far = far if far <= 100 else 0
        self.updated_at = now
        self.key = self.key or fields.get("build", "")
        self.steps[number] = self.last = (name, status)
        self.fresh[name, status] += 1
        self.is_complete |= far == 100 and status in {"done", "reported"}
        self.is_complete |= is_strict and (name, status) == ("Callback", "done")
        if status == "failed":
            self.failed = name
        elif status == "done" and self.failed == name:
            self.failed = ""


@dataclass
class ModelHost:
    """Facts of a host that a collector has to know."""

    builds: dict[int, ModelBuild] = field(default_factory=dict)
    files: dict[str, list[ModelFile]] = field(default_factory=dict)
    heard_at: float = 0.0
    is_judged_anew: bool = True
    """False after the collector's clock was set back since the last report."""

    def latest_bundle(self, kind: str) -> str:
        """The SHA-256 of the latest of a kind that is not forgotten."""
        kept = (each for build in self.builds.values() for each in build.bundles if each[1] == kind)
        return max(kept, default=(0, kind, ""))[2]

    @property
    def latest(self) -> int:
        return max((number for number in self.builds), default=0)

    def earlier(self, key: str) -> int:
        """The build of that name which another one has followed; 0 where there is none."""
        earlier = [number for number, build in self.builds.items() if key and build.key == key]
        return max((number for number in earlier if number != self.latest), default=0)

    def verdict(self, now: float, heard: Mapping[str, int], *, is_strict: bool) -> str:  # noqa: PLR0911  # a rule each
        """Return the expected verdict; nothing where that depends on more than the model knows.

        `heard` is how often each step was reported, by whatever host.
        """
        build = self.builds.get(self.latest, ModelBuild(0.0))
        if not self.is_judged_anew or max(build.fresh.values(), default=0) > 1:
            return ""  # judged by a clock that was set back; or perhaps it loops
        if build.is_complete:
            return "done"
        if build.last[1] == "failed":
            return "failed"
        is_given = is_strict and build.last[0] != "Elsewhere"
        if not is_given and heard[build.last[0]] >= _FEW:
            return ""  # its budget may have been learnt
        late = now - max(self.heard_at, build.updated_at if build.steps else 0.0)
        budget = BUDGET if is_given and build.steps else DEFAULT
        if late < budget:
            return "progressing"
        if build.failed:
            return "failed"
        return "silent" if not build.steps or late >= max(2 * budget, SILENT) else "stuck"
