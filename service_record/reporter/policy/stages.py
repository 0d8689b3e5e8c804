"""When the assisted-service is told a fact, and as what: the rules under which it is not. Pure.

Each accepted PUT of a stage restarts the clock by which the service finds a stage stuck. So a fact is told
once, and nothing is told periodically.
"""

from typing import Final

from service_record.reporter.answers import HostView
from service_record.reporter.places import Places
from service_record.reporter.policy.moment import Moment
from service_record.reporter.policy.plan import Fact, StageReport, info
from service_record.reporter.policy.rules import Rule
from service_record.reporter.policy.shipments import keeps_bundle
from service_record.reporter.settings import Stages

KIND: Final = "stage"
"""The kind of call, where refusals are remembered."""
MOST_TRIES: Final = 6
"""Requests for one fact, those included that the round did not survive."""
PLACE: Final = f"{Fact.KEPT}: {Places().spool_directory}"
"""Where the bundle lies on the host: the directory, for its name changes with each newer one."""
_INSTALLING: Final = frozenset({"installing", "installing-in-progress", "installing-pending-user-action"})
_BOOTED: Final = (Fact.LOCAL, Fact.CONTROL_PLANE)
_OVER: Final = frozenset({"Failed", "Done"})


def _view(moment: Moment) -> HostView | None:
    return moment.view if isinstance(moment.view, HostView) else None


def _has_it(moment: Moment) -> bool:
    """Whether the service has the fact already: from a round that was killed before it could note that."""
    view = _view(moment)
    return view is not None and (view.stage == moment.fact or view.info.startswith(moment.fact))


def _is_installing(moment: Moment) -> bool:
    view = _view(moment)
    return view is not None and view.status in _INSTALLING


def _stage(moment: Moment) -> str:
    view = _view(moment)
    return view.stage if view else ""


def _knows_no_stages(moment: Moment) -> bool:
    return moment.settings.stages is Stages.NEW and moment.state.stages_known is False


SILENCES: Final = (
    Rule("told-before", lambda moment: moment.fact in moment.state.told, "each fact is told once"),
    Rule(
        "dropped",
        lambda moment: moment.fact in moment.state.dropped,
        "the service did not take this fact, and is not asked again",
    ),
    Rule(
        "telling-refused",
        lambda moment: KIND in moment.state.refused,
        "the service refuses to be told of stages",
    ),
    Rule("no-view", lambda moment: _view(moment) is None, "the stage that the service knows is not known"),
    Rule("has-it", _has_it, "the service has this fact already; a round that was killed has told it"),
    Rule(
        "not-installing",
        lambda moment: not _is_installing(moment),
        "stages change only while a host is being installed",
    ),
    Rule(
        "no-stage",
        lambda moment: not _stage(moment),
        "a progress without a stage is answered 409; the installation has not begun for the service",
    ),
    Rule(
        "over",
        lambda moment: _stage(moment) in _OVER,
        "`Failed` is never sent: it ends the installation; after `Done` nothing is",
    ),
    Rule("no-such-stages", _knows_no_stages, "`stages = new`, and the service does not have them"),
    Rule(
        "deferred",
        lambda moment: moment.fact in moment.state.deferred,
        "the service had a bad moment: the next round tries again",
    ),
    Rule(
        "tries-spent",
        lambda moment: moment.state.tries.get(moment.fact, 0) >= MOST_TRIES,
        "the service was asked as often as it may be for one fact",
    ),
)
"""Why a fact is not told; when none of these holds, it is."""

WAITING: Final = frozenset({"no-view", "deferred"})
"""Those that may not hold any more in the next round."""


def report(moment: Moment) -> StageReport:
    """The fact, as the service can take it: as a stage of its own, or as information on the current one.

    The current stage is sent as it was read, whatever it is: another would change the installation. So
    `Rebooting` is sent of a host added on day two only when that is its stage; it would be `Done` by it.
    """
    fact, stages = moment.fact, moment.settings.stages
    as_stage = stages is Stages.NEW or (stages is Stages.AUTO and moment.state.stages_known is not False)
    place = PLACE if Fact.KEPT in moment.state.told and moment.state.bundle else ""
    if as_stage:
        return StageReport(fact=fact, stage=fact.value, info=place)
    return StageReport(fact=fact, stage=_stage(moment), info=info(_joined(fact, place)))


def place_report(moment: Moment) -> StageReport | None:
    """Return the report of where the bundle lies that leaves the agent's logs alone; None when there is none.

    It goes with the current stage, behind the fact that the service has; a fact that is still to be told
    goes first. The service takes it in any status of the host.
    """
    view, state = _view(moment), moment.state
    if view is None or not view.stage or view.stage in _OVER or not keeps_bundle(moment) or has_place(moment):
        return None
    waits = is_outstanding(moment) and _is_installing(moment)
    is_over = KIND in state.refused or state.tries.get(Fact.KEPT, 0) >= MOST_TRIES
    if waits or is_over or Fact.KEPT in {*state.told, *state.dropped, *state.deferred}:
        return None
    fact = next((fact for fact in _BOOTED if view.info.startswith(fact)), "")
    return StageReport(fact=Fact.KEPT, stage=view.stage, info=info(_joined(fact, PLACE)))


def has_place(moment: Moment) -> bool:
    """Return whether the service was told where the bundle lies, as its own view has it."""
    view = _view(moment)
    return view is not None and PLACE in view.info


def _joined(*words: str) -> str:
    return ". ".join(filter(None, words))


def is_outstanding(moment: Moment) -> bool:
    """Whether the fact of now may still be told in a later round."""
    if moment.settings.service is None or KIND in moment.state.refused:
        return False
    return moment.fact not in {*moment.state.told, *moment.state.dropped}


def known(moment: Moment) -> tuple[Fact, ...]:
    """Return the facts that the service has although this state does not know it."""
    has = {moment.fact: _has_it(moment), Fact.KEPT: has_place(moment)}
    return tuple(fact for fact in has if has[fact] and fact not in moment.state.told)
