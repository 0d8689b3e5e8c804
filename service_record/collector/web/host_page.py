"""The page of a host: its verdict and reason, the timeline of a build, and the steps and files it sent."""

from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from urllib.parse import quote

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from service_record.collector.api.admin_calls import NewToken, forget_host, make_token
from service_record.collector.api.answering import Refusal
from service_record.collector.api.requests import MOST_DIGITS
from service_record.collector.api.serving import Serving, caller, host_name
from service_record.collector.domain.access import TokenKind
from service_record.collector.domain.mutes import Mute, find_mute
from service_record.collector.domain.silence import SilenceBudgets
from service_record.collector.domain.steps import StepStatus, make_label
from service_record.collector.process import Collector
from service_record.collector.store.host_rows import (
    LATEST_STEPS,
    Boot,
    read_boots,
    read_host,
    read_step_logs,
)
from service_record.collector.store.notices import active_mutes
from service_record.collector.web.analyses import Analyses, AnalysisView
from service_record.collector.web.build_chart import Pace, build_drawing, service_rows
from service_record.collector.web.fleet_page import digest
from service_record.collector.web.login import administrator, read_form
from service_record.collector.web.pages import LivePage, reader_page
from service_record.display.drawing import Drawing
from service_record.http.collector_answers import BuildSummary, HostDetail, ShownLastWords, ShownStep


@dataclass(frozen=True)
class HostPage(LivePage):
    """The content of the page of a host at one time."""

    template = "host_live.html"

    detail: HostDetail
    boots: tuple[Boot, ...]
    """The boots during the shown build."""
    records: AnalysisView
    budgets: SilenceBudgets
    """The time limits of the steps that have not ended."""
    now: float
    mute: Mute | None = None
    """The mute that covers the host; if there are several, the one that ends last."""
    asked_build: int | None = None
    """The build that the URL names; None shows the latest."""

    @property
    def heading(self) -> str:
        return self.detail.summary.name

    @property
    def address(self) -> str:
        return f"/hosts/{quote(self.heading)}" + (
            f"?build={self.asked_build}" if self.asked_build is not None else ""
        )

    @property
    def stream(self) -> str:
        return f"/events?host={quote(self.heading)}" + (
            f"&build={self.asked_build}" if self.asked_build is not None else ""
        )

    @property
    def state(self) -> str:
        mute = self.mute.id if self.mute is not None else None
        return digest((self.detail.summary.revision, self.detail.shown_build, self.records.mark, mute))

    @property
    def sentence(self) -> str:
        host = self.detail.summary
        return f"{host.name}: {host.verdict}{f': {host.reason}' if host.reason else ''}"

    @property
    def build(self) -> BuildSummary | None:
        """Return the shown build, or None before the first build."""
        return next((each for each in self.detail.builds if each.number == self.detail.shown_build), None)

    @property
    def is_latest(self) -> bool:
        """Return whether the shown build is the latest one, to which the verdict of the host belongs."""
        return self.detail.shown_build == self.detail.summary.build

    @property
    def is_cut(self) -> bool:
        """Return whether the build may have more steps than are shown."""
        return sum(group.count * len(group.first) for group in self.detail.steps) >= LATEST_STEPS

    @cached_property
    def failure(self) -> ShownStep | None:
        """Return the latest step that failed in this build and was not done later."""
        failures = [step for group in self.detail.steps for step in (*group.first, *group.latest)]
        ended: dict[str, ShownStep] = {
            step.label: step for step in failures if step.status in {"done", "failed"}
        }
        failed = [step for step in ended.values() if step.status == "failed"]
        return max(failed, key=lambda step: step.id, default=None)

    @cached_property
    def find_lines_of_steps(self) -> dict[int, ShownLastWords]:
        """Return {id of an open step: last lines of the service or stage with the name of the step}."""
        latest = {step.label: step for group in self.detail.steps for step in group.latest}
        by_step: dict[int, ShownLastWords] = {}
        for words in self.detail.last_words:
            for name in filter(None, (words.stage, words.service)):
                step = latest.get(make_label(name))
                if step is not None and step.status == StepStatus.INIT:
                    by_step.setdefault(step.id, words)
                    break
        return by_step

    @property
    def list_other_lines(self) -> list[ShownLastWords]:
        """Return the last lines that belong to no open step, except those of stages that are done."""
        of_steps = list(self.find_lines_of_steps.values())
        latest = {step.label: step.status for group in self.detail.steps for step in group.latest}
        return [
            words
            for words in self.detail.last_words
            if words not in of_steps and latest.get(make_label(words.stage)) != StepStatus.DONE
        ]

    def timeline(self) -> Drawing | None:
        """Return the timeline of the shown build; None before the first build."""
        if self.build is None:
            return None
        analysis, build = self.records.analysis, self.build
        later = [each.started_at for each in self.detail.builds if each.number == build.number + 1]
        until = later[0] if later else self.now
        services = service_rows(analysis.services, build.started_at, until) if analysis else ()
        pace = Pace(self.budgets, self.detail.summary.group, build.release)
        steps = self.detail.steps
        return build_drawing(
            build, steps, self.boots, services, self.now, is_latest=self.is_latest, pace=pace
        )


async def get_host(request: Request) -> Response:
    """`GET /hosts/{host}?build=...`: a host with one of its builds, by default the latest."""
    return await _page(request, parse_build(request.query_params.get("build", "")))


async def post_host(request: Request) -> Response:
    """`POST /hosts/{host}`: delete the host (form field `do=forget`), or create its token (`do=token`)."""
    serving, grant = administrator(request)
    name = host_name(request.path_params["host"])
    do = (await read_form(request)).get("do")
    if do == "forget":
        await forget_host(serving, grant, name)
        return RedirectResponse("/", HTTPStatus.SEE_OTHER)
    if do != "token":
        raise Refusal(HTTPStatus.BAD_REQUEST, "do is forget or token")
    made = await make_token(serving, grant, NewToken(kind=TokenKind.HOST, scope=name))
    return await _page(request, None, made.token)


async def _page(request: Request, build: int | None, new_token: str = "") -> Response:
    serving, grant = caller(request)
    name = host_name(request.path_params["host"])
    state = await run_in_threadpool(
        make_host_page, request.app.state.analyses, serving.collector, name, build
    )
    return reader_page(
        request,
        "host.html",
        seen=state,
        new_token=new_token,
        may_administer=grant.may_administer,
        here="host",
    )


async def get_logs(request: Request) -> Response:
    """`GET /hosts/{host}/steps/{step}/logs`: all stored logs of a step, as plain text."""
    name, step = host_name(request.path_params["host"]), request.path_params["step"]
    logs = await Serving.of(request).ask(lambda connection: read_step_logs(connection, name, step))
    if logs is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"{name} has no such step")
    return Response(logs, media_type="text/plain", headers={"Cache-Control": "no-store"})


async def get_analysis(request: Request) -> Response:
    """`GET /hosts/{host}/analysis`: the whole analysis of a host's records."""
    name = host_name(request.path_params["host"])
    analysis = await run_in_threadpool(request.app.state.analyses.of, name)
    if analysis.source is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"{name} has sent no records")
    return reader_page(
        request,
        "analysis.html",
        name=name,
        records=analysis,
        now=Serving.of(request).collector.now(),
        here="host",
    )


def make_host_page(analyses: Analyses, collector: Collector, name: str, build: int | None) -> HostPage:
    """Read the current state of a host. Raises Refusal if the host or the build does not exist."""
    now = collector.now()
    with collector.database.reading() as connection:
        detail = read_host(connection, name, now, build)
        boots = _boots(connection, detail) if detail else ()
        mutes = active_mutes(connection, now) if detail else ()
    if detail is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no host {name}" + (f" with a build {build}" if build else ""))
    budgets = collector.baselines.budgets(_unfinished(detail), with_given=True)
    summary = detail.summary
    mute = find_mute(mutes, summary.name, summary.group, summary.cause)
    return HostPage(detail, boots, analyses.of(name), budgets, now, mute, build)


def _unfinished(detail: HostDetail) -> set[str]:
    """Return the labels of the steps that began and have not ended, and of the latest step."""
    latest = {step.label: step.status for group in detail.steps for step in group.latest}
    last = {group.latest[-1].label for group in detail.steps[-1:]}
    return last | {label for label, status in latest.items() if status == "init"}


def _boots(connection: Connection, detail: HostDetail) -> tuple[Boot, ...]:
    """Return the boots since the earliest shown step."""
    first = min((step.id for group in detail.steps for step in group.first), default=0)
    return read_boots(connection, detail.summary.name, detail.shown_build, first)


def parse_build(text: str) -> int | None:
    """Parse the number of a build in a query. Returns None, for the latest build, if it is not a number.

    Raises Refusal 404 for a number that is too long for the database.
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    if len(text) > MOST_DIGITS:
        raise Refusal(HTTPStatus.NOT_FOUND, f"no build {text[:MOST_DIGITS]}...")
    return int(text)
