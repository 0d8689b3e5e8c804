"""What a service said and what a round is to do, in a few words for people."""

from collections.abc import Iterator

from service_record.reporter.answers import Answered, HostView, NoHost, Outcome, Refused, View
from service_record.reporter.policy import Plan


def told_view(view: View | None) -> str:
    """What the service says of this host, in a few words."""
    match view:
        case None:
            return "not asked"
        case HostView():
            words = [f"stage {view.stage or 'none'}", f"status {view.status or 'none'}", view.role]
            return ", ".join(filter(None, words))
        case NoHost():
            return f"it knows no such host: {view.reason}"
        case Refused():
            return f"it refuses our token: {view.status} {view.text}".rstrip()
        case _:
            return told_outcome(view)


def told_outcome(outcome: Outcome) -> str:
    """What a call came to, in a few words."""
    if isinstance(outcome, Answered):
        return f"answered {outcome.status} {outcome.text}".rstrip()
    return outcome.reason


def said(plan: Plan) -> Iterator[str]:
    """The rules that made the plan, and whether it is the last of all."""
    yield from plan.why
    if plan.stop is not None:
        yield f"stops: {plan.stop.reason}"
