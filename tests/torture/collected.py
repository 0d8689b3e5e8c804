"""Lives of a collector, drawn step by step, against a model of what hosts were told that it has.

The real application on a real SQLite database: steps in any order, records that are resumed and repeated,
bundles that come twice, clocks that are set by years, crashes, what is forgotten, and verdicts.
"""

import shutil
import tempfile
from base64 import b64encode
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import func, select

from service_record.collector import logs
from service_record.collector.domain.access import TokenKind
from service_record.collector.domain.silence import DEFAULT
from service_record.collector.ingest.baselines import FleetCounts
from service_record.collector.ingest.housekeeping import DAY, KeepLimits, carry_out, planned
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings, Rates
from service_record.collector.store import tokens
from service_record.collector.store.database import FILE
from service_record.collector.store.schema import builds, bundles, hosts, notices, steps
from tests.assisted_rules import BASE_PATH
from tests.collector.in_process import Application, empty_database
from tests.collector.installing import Clock, form
from tests.collector.serving import Reply
from tests.torture.collected_model import BUDGET, ModelBuild, ModelFile, ModelHost

AGENT: Final = "01234567-89ab-cdef-0123-456789abcdef"
"""A host that is called by its id, as one is of which bundles come before anything else."""
HOSTS: Final = ("web1", "web2", AGENT)
YEARS: Final = 10 * 365 * 86_400.0
_OFTEN: Final = Rates(per_second=1e9, burst=1_000_000_000)
_DEFINED: Final = f"""
[[step]]
label = "disk_setup"
budget = {BUDGET}
[[step]]
label = "packages"
budget = {BUDGET}
[[step]]
label = "callback"
budget = {BUDGET}
last = true
"""

names = st.sampled_from(["Disk setup", "Packages", "Callback", "Elsewhere"])
reports = st.fixed_dictionaries(
    {"name": names, "status": st.sampled_from(["failed", "init", "done", "?"])},
    optional={
        "percentage": st.sampled_from([5, 50, 100, 250]),
        "build": st.sampled_from(["a", "b"]),
        "logs": st.sampled_from(["no space left", "\x00\u202e é"]),
        "time": st.integers(0, 4_000_000_000).map(lambda at: datetime.fromtimestamp(at, UTC).isoformat()),
        "boot": st.sampled_from(["1" * 32, "2" * 32]),
    },
)


class CollectedHosts(RuleBasedStateMachine):
    """A collector to which a few hosts report."""

    @initialize(is_strict=st.booleans())
    def begin(self, is_strict: bool) -> None:
        self.place = tempfile.TemporaryDirectory()
        self.life = 0
        self.clock = Clock()
        logs.configure("error")  # what is refused is expected
        self.hosts: dict[str, ModelHost] = {}
        self.is_strict = is_strict
        self.heard = Counter[str]()
        self.last_id = self.bundle_count = 0
        (Path(self.place.name) / "steps.toml").write_text(_DEFINED)
        self._data.mkdir()
        (self._data / FILE).write_bytes(empty_database())
        self._open()
        self.tokens = {name: self._token(TokenKind.ADMIN, "") for name in ("web1", "web2")}
        self.tokens[AGENT] = self._token(TokenKind.HOST, AGENT)

    def teardown(self) -> None:
        if hasattr(self, "collector"):
            self._close()
            self.place.cleanup()

    @property
    def _data(self) -> Path:
        return Path(self.place.name) / f"data{self.life}"

    def _open(self) -> None:
        defined = (Path(self.place.name) / "steps.toml",) if self.is_strict else ()
        settings = CollectorSettings(data=self._data, steps=defined, rates=_OFTEN, guesses=_OFTEN)
        self.collector = Collector(settings, self.clock)
        self.app = Application(self.collector)

    def _close(self) -> None:
        self.app.close()
        self.collector.close()

    def _token(self, kind: TokenKind, scope: str) -> str:
        new = tokens.TokenRequest(kind=kind, scope=scope)
        now = self.clock.now
        return self.collector.writer.change(lambda connection: tokens.create(connection, new, now)).result()

    def _ask(self, host: str, method: str, path: str, **more: Any) -> Reply:
        return self.app.ask(method, path, self.tokens[host], **more)

    def _read(self, path: str, **query: Any) -> Any:
        reply = self.app.ask("GET", path, self.tokens["web1"], **query)
        assert reply.status == 200, reply
        return reply.json

    def _heard(self, host: str) -> ModelHost:
        """The host, of which something was acknowledged just now."""
        model = self.hosts.setdefault(host, ModelHost())
        model.heard_at, model.is_judged_anew = self.clock.now, True
        return model

    @rule(
        host=st.sampled_from(HOSTS),
        told=st.lists(st.tuples(reports, st.sampled_from([0.0, 0.5, 60.0])), min_size=1, max_size=4),
    )
    def report(self, host: str, told: list[tuple[dict[str, Any], float]]) -> None:
        """Steps, in any order, as often as it likes, by any clock of the host's."""
        for fields, seconds in told:
            self._report(host, fields)
            self.clock.now += seconds
        self.judge()

    def _report(self, host: str, fields: dict[str, Any]) -> None:
        reply = self._ask(host, "POST", f"/api/v1/hosts/{host}/steps", data=fields)
        name, status = fields["name"], fields["status"].replace("?", "reported")
        if self.is_strict and name == "Elsewhere":
            assert reply.status == 422
            number, build = int(reply.json["detail"].split()[-1]), self._build_of(reply)
        else:
            assert reply.status == 201, reply
            number, build = reply.json["id"], reply.json["build"]
        assert number > self.last_id, "a number was given twice"
        self.last_id = number
        self.heard[name] += 1
        model = self.hosts.setdefault(host, ModelHost())
        if late := model.earlier(fields.get("build", "")):
            assert build == late
            model.builds[late].updated_at = self.clock.now
            model.builds[late].steps[number] = (name, status)
            return
        assert build in {model.latest, model.latest + 1}
        self._heard(host)
        of = model.builds.setdefault(build, ModelBuild(self.clock.now))
        of.report(number, fields, status, self.clock.now, is_strict=self.is_strict)

    def _build_of(self, reply: Reply) -> int:
        """Of a step that was refused and kept."""
        number = int(reply.json["detail"].split()[-1])
        with self.collector.database.reading() as connection:
            found: int = connection.execute(select(steps.c.build).where(steps.c.id == number)).scalar_one()
        return found

    @rule(
        host=st.sampled_from(HOSTS),
        service=st.sampled_from(["bootkube", "kubelet"]),
        size=st.integers(0, 300),
        back=st.just(0) | st.just(0) | st.integers(-40, 400),
        is_new=st.booleans(),
        then=st.none() | st.just(0) | st.integers(-2, 5),
    )
    def send_records(
        self, *, host: str, service: str, size: int, back: int, is_new: bool, then: int | None
    ) -> None:
        """A piece from before or behind what is held, and perhaps one more; or the begin of another file."""
        model = self.hosts.get(host, ModelHost())
        files = model.files.get(service, [])
        if is_new or not files:
            files = [*files, ModelFile(f"{self.life}-{len(files)}-{self.last_id}-{self.clock.now}"[:64], b"")]
        file = files[-1]
        while len(file.content) < file.held + 1000:
            file.content += sha256(file.name.encode() + file.content[-32:]).hexdigest().encode() + b"\n"
        begin = max(0, file.held - back)
        pieces = [(begin, size)] if then is None else [(begin, size), (max(0, begin + size + then), 10)]
        sent = [
            {
                "service": service,
                "file": file.name,
                "offset": offset,
                "data": b64encode(file.content[offset : offset + length]).decode(),
            }
            for offset, length in pieces
        ]
        reply = self._ask(host, "POST", f"/api/v1/hosts/{host}/records", data={"pieces": sent})
        end = file.held
        for offset, length in pieces:
            if offset + length > end and offset != end:
                assert reply.status == 409, reply
                assert reply.json["files"][0]["offset"] == file.held
                return
            end = max(end, offset + length)
        assert reply.status == 200, reply
        self._heard(host).files[service] = files if end else files[:-1]
        if end > file.held:
            file.held, file.at = end, self.clock.now

    @rule(kind=st.sampled_from(["host", "host_boot"]), number=st.integers(0, 2))
    def send_bundle(self, kind: str, number: int) -> None:
        """The same one twice in a row is kept once."""
        content = b"bundle %d" % number * 100
        body, headers = form(content)
        path = f"{BASE_PATH}/v2/clusters/{AGENT}/logs"
        reply = self._ask(AGENT, "POST", path, body=body, headers=headers, logs_type=kind, host_id=AGENT)
        assert reply.status == 204, reply
        digest, model = sha256(content).hexdigest(), self._heard(AGENT)
        if model.latest_bundle(kind) != digest:
            self.bundle_count += 1
            build = model.builds.setdefault(model.latest, ModelBuild(self.clock.now))
            build.bundles.append((self.bundle_count, kind, digest))
            if not model.latest:
                build.updated_at = max(build.updated_at, self.clock.now)

    @rule(seconds=st.sampled_from([0.5, 60.0, BUDGET, DEFAULT, 3600.0, DAY, 100 * DAY]))
    def wait(self, seconds: float) -> None:
        """Verdicts change by time alone."""
        self.clock.now += seconds
        self.judge()

    @rule(seconds=st.floats(-YEARS, YEARS) | st.floats(-5, 5))
    def step_the_clock_of_the_collector(self, seconds: float) -> None:
        self.clock.now += seconds
        if seconds < 0:
            for model in self.hosts.values():
                model.is_judged_anew = False

    @rule()
    def crash(self) -> None:
        """Crash the collector, without closing anything: the next one finds what is on the disk."""
        before = self._data
        self.life += 1
        shutil.copytree(before, self._data)
        self._close()
        shutil.rmtree(before)
        self._open()

    @rule()
    def restart(self) -> None:
        self._close()
        self._open()

    @rule()
    def judge(self) -> None:
        """Judged once, all is judged; and every host is what the model says, where that is plain."""
        self.collector.sweeper.sweep()
        before = self._judged()
        self.collector.sweeper.sweep()
        assert self._judged() == before
        shown = {each["name"]: each["verdict"] for each in self._read("/api/v1/hosts", all="true")["hosts"]}
        for name, model in self.hosts.items():
            wanted = model.verdict(self.clock.now, self.heard, is_strict=self.is_strict)
            assert wanted in {"", shown[name]}, (name, wanted, shown[name], model)

    def _judged(self) -> list[Any]:
        with self.collector.database.reading() as connection:
            said = list(connection.execute(select(hosts).order_by(hosts.c.id)))
            return [*said, connection.execute(select(func.count()).select_from(notices)).scalar_one()]

    @rule(days=st.sampled_from([1.0, 90.0]))
    def forget(self, days: float) -> None:
        """Old builds go; of each host the latest stays, and its first and its last failure."""
        limits, now = KeepLimits(days=days), self.clock.now
        staying = self._staying()
        with self.collector.database.reading() as connection:
            what = planned(connection, limits, now)
        change = self.collector.writer.change
        carry_out(what, lambda do: change(do).result(), self.collector.objects, "retention", now)
        for name, model in self.hosts.items():
            old = {number for number, build in model.builds.items() if build.updated_at < now - days * DAY}
            for number in old - staying[name]:
                del model.builds[number]
            for files in model.files.values():
                files[:-1] = [file for file in files[:-1] if file.at >= now - days * DAY]

    def _staying(self) -> dict[str, set[int]]:
        """The builds of each host that are never forgotten."""
        failures: dict[str, list[int]] = {}
        with self.collector.database.reading() as connection:
            said = select(hosts.c.name, builds.c.number).join(hosts, hosts.c.id == builds.c.host_id)
            is_failure = builds.c.verdict.in_(["failed", "looping", "stuck"])
            for row in connection.execute(said.where(is_failure).order_by(builds.c.number)):
                failures.setdefault(row.name, []).append(row.number)
        return {
            name: {model.latest, *failures.get(name, [])[:1], *failures.get(name, [])[-1:]}
            for name, model in self.hosts.items()
        }

    @invariant()
    def promise_8_what_was_acknowledged_is_there_once_and_nothing_else(self) -> None:
        if not hasattr(self, "collector"):
            return
        with self.collector.database.reading() as connection:
            of_hosts = select(hosts.c.name, steps.c.build, steps.c.id, steps.c.name, steps.c.status)
            found = [tuple(row) for row in connection.execute(of_hosts.join_from(steps, hosts))]
            kept = list(connection.execute(select(hosts.c.name, bundles).join_from(bundles, hosts)))
        wanted = [
            (host, number, step, *told)
            for host, model in self.hosts.items()
            for number, build in model.builds.items()
            for step, told in build.steps.items()
        ]
        assert sorted(found) == sorted(wanted)
        digests = Counter((row[0], row.build, sha256(self._object(row.key)).hexdigest()) for row in kept)
        assert digests == Counter(
            (host, number, digest)
            for host, model in self.hosts.items()
            for number, build in model.builds.items()
            for _, _, digest in build.bundles
        )

    def _object(self, key: str) -> bytes:
        return b"".join(self.collector.objects.read(key))

    @invariant()
    def promise_8_records_are_held_byte_for_byte_and_without_a_gap(self) -> None:
        for host, model in getattr(self, "hosts", {}).items():
            for service, files in model.files.items():
                if not files:
                    continue
                reply = self.app.ask("GET", f"/api/v1/hosts/{host}/records/{service}", self.tokens["web1"])
                assert reply.body == b"".join(file.content[: file.held] + b"\n" for file in files)

    @invariant()
    def every_host_is_on_one_page_once(self) -> None:
        if not hasattr(self, "collector"):
            return
        self.collector.counts = FleetCounts()  # a busy machine would be told what was counted a moment ago
        pages = [self._read("/api/v1/hosts", all="true", limit=2)]
        while after := pages[-1]["next"]:
            pages.append(self._read("/api/v1/hosts", all="true", limit=2, after=after))
        assert sorted(one["name"] for page in pages for one in page["hosts"]) == sorted(self.hosts)
        for page in pages:
            assert page["total"] == sum(page["counts"].values()) == len(self.hosts)
