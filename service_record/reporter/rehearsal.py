"""`report --dry-run`: what a round would do."""

from collections.abc import Iterator, Mapping

from service_record.reporter import verdict
from service_record.reporter.cleanup import read_tombstone
from service_record.reporter.evidence import observe
from service_record.reporter.peers import Peers
from service_record.reporter.places import Places
from service_record.reporter.policy import arrive, asks, decide
from service_record.reporter.settings import read_settings
from service_record.reporter.state import State, load
from service_record.reporter.words import said, told_view


def rehearsed(places: Places, environ: Mapping[str, str]) -> Iterator[str]:
    """What a round would do now, a line each: the service is asked for its view, and nothing else is done."""
    tombstone = read_tombstone(places)
    if tombstone is not None:
        yield f"stopped for good: {tombstone.reason}"
        return
    settings, state = read_settings(places, environ), State(is_careful=True)
    yield from settings.faults
    try:
        state = load(places.state_file, sets_aside=False)
    except OSError as error:
        yield f"{places.state_file}: {error.strerror}; without it nothing is told or shipped"
    evidence = observe(places, own=(places.service.name,))
    state = arrive(state, evidence)
    yield f"verdict: {verdict.sentence(evidence)}"
    view = Peers(settings).view() if asks(settings, state, evidence) else None
    yield f"service: {told_view(view)}"
    yield from said(decide(settings, state, view, evidence))
