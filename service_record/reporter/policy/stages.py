"""When the assisted-service is told a fact, and as what: the rules under which it is not. Pure.

Each accepted PUT of a stage restarts the clock by which the service finds a stage stuck. So a fact is told
once, and nothing is told periodically.
"""

from typing import Final

from service_record.reporter.answers import HostView
from service_record.reporter.policy.moment import Moment
from service_record.reporter.policy.plan import StageReport, info
from service_record.reporter.policy.rules import Rule
from service_record.reporter.settings import Stages

KIND: Final = "stage"
"""The kind of call, where refusals are remembered."""
MOST_TRIES: Final = 6
"""Requests for one fact, those included that the round did not survive."""
_INSTALLING: Final = frozenset({"installing", "installing-in-progress", "installing-pending-user-action"})
_OVER: Final = frozenset({"Failed", "Done"})


def _view(moment: Moment) -> HostView | None:
    return moment.view if isinstance(moment.view, HostView) else None


def _has_it(moment: Moment) -> bool:
    """Whether the service has the fact already: from a round that was killed before it could note that."""
    view = _view(moment)
    return view is not None and moment.fact in {view.stage, view.info}


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
    if as_stage:
        return StageReport(fact=fact, stage=fact.value, info="")
    return StageReport(fact=fact, stage=_stage(moment), info=info(fact.value))


def is_outstanding(moment: Moment) -> bool:
    """Whether the fact of now may still be told in a later round."""
    if moment.settings.service is None or KIND in moment.state.refused:
        return False
    return moment.fact not in {*moment.state.told, *moment.state.dropped}


def is_known(moment: Moment) -> bool:
    """Whether the service has the fact although this state does not know it."""
    return moment.fact not in moment.state.told and _has_it(moment)
