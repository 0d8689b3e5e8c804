"""When the reporter's work on a host is over. Pure."""

from typing import Final

from service_record.reporter.answers import HostView, NoHost, Refused
from service_record.reporter.policy import shipments, stages
from service_record.reporter.policy.moment import Moment
from service_record.reporter.policy.plan import GONE, NOT_OURS, Fact
from service_record.reporter.policy.rules import Rule, first

_INSTALLED: Final = frozenset({"installed", "added-to-existing-cluster"})


def _is_installed(moment: Moment) -> bool:
    view = moment.view
    return isinstance(view, HostView) and (view.status in _INSTALLED or view.stage == "Done")


def _is_up(moment: Moment) -> bool:
    return moment.evidence.kubelet_healthy and moment.fact is Fact.CONTROL_PLANE


def _is_up_and_told(moment: Moment) -> bool:
    if not _is_up(moment):
        return False
    silence = first(stages.SILENCES, moment)
    waits = silence is None or silence.name in stages.WAITING
    return not (waits and stages.is_outstanding(moment))


ENDINGS: Final = (
    Rule(
        NOT_OURS,
        lambda moment: isinstance(moment.view, Refused) and moment.is_denied(NOT_OURS),
        "the service does not take our token, in three rounds over 30 minutes",
    ),
    Rule(
        GONE,
        lambda moment: isinstance(moment.view, NoHost) and moment.is_denied(GONE),
        "the service knows no such host any more, in three rounds over 30 minutes",
    ),
    Rule("installed", _is_installed, "the service says that the host is installed"),
    Rule("kubelet-up", _is_up_and_told, "the kubelet is up, on the configuration of the control plane"),
    Rule(
        "time-limit",
        lambda moment: moment.is_over_limit and moment.is_last_boot,
        "this boot has taken longer than `time_limit`",
    ),
    Rule(
        "lifetime",
        lambda moment: moment.lived >= moment.settings.lifetime,
        "the host was up for longer than `lifetime`, all boots together",
    ),
)
"""When to stop for good, and clean up."""

QUIET: Final = Rule(
    "quiet",
    lambda moment: moment.is_quiet,
    "this boot has taken longer than `time_limit`, and another is expected: it is waited for without a word",
)


def is_up(moment: Moment) -> bool:
    """Whether all is well with the host, told or not."""
    return _is_up(moment)


def is_undelivered(moment: Moment) -> bool:
    """Return whether something is wrong with the host that no destination has a bundle of.

    A bundle whose place on the host the service was told of, or that stays there for the sake of the agent's
    logs, has not arrived, either.
    """
    if not moment.is_wrong or _is_up(moment):
        return False
    is_delivered = moment.state.is_delivered(moment.evidence.fingerprint)
    return not is_delivered or Fact.KEPT in moment.state.told or shipments.keeps_bundle(moment)
