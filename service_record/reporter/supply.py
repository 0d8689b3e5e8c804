"""The bundle of a round: gathered when the rules want one, kept in the spool, and shipped from there."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from service_record.redaction import Leak  # noqa: TC001  # a field's type
from service_record.reporter import verdict
from service_record.reporter.answers import Answered, Outcome, Unreachable
from service_record.reporter.bundling import Bundled, make_bundle
from service_record.reporter.evidence import Evidence
from service_record.reporter.gather import COLLECTORS, Context, newest_cursor
from service_record.reporter.gather.deadline import Deadline
from service_record.reporter.log import Log
from service_record.reporter.peers import Peers
from service_record.reporter.places import Places
from service_record.reporter.policy import Call, Meaning, Shipment, kept, learn, not_kept, withheld
from service_record.reporter.policy.moment import Moment
from service_record.reporter.policy.shipments import targets
from service_record.reporter.setting_values import COLLECTOR
from service_record.reporter.settings import Settings, secrets_in
from service_record.reporter.spool import Kept, NotKept, Spool
from service_record.reporter.state import State
from service_record.reporter.words import told_outcome

_ROUND_SECONDS: Final = 780.0
"""Until when a shipment may begin, or go on: the unit ends a round after 900."""
_LEAST_SECONDS: Final = 30.0
"""What is left must be so much for a shipment to begin."""


class Supply:
    """What there is to ship in one round."""

    def __init__(
        self, places: Places, environ: Mapping[str, str], say: Log, settings: Settings, evidence: Evidence
    ) -> None:
        self.leak: Leak | None = None
        """Where a secret was in a bundle, which was therefore not kept."""
        self.is_spent = False
        """True when this round can make no other bundle: it made one, or failed to."""
        self._places = places
        self._environ = environ
        self._say = say
        self._settings = settings
        self._evidence = evidence
        self._deadline = Deadline(_ROUND_SECONDS)
        self._spool = Spool(places.spool_directory, settings.disk_bytes)
        self._cursor: str | None = None

    def gather(self, state: State, most_bytes: int) -> State:
        """Make a bundle and keep it in the spool; the state is what came of that."""
        if self.is_spent:
            return state
        self.is_spent = True
        try:
            made = self._made(state, most_bytes)
        except OSError as error:
            self._say.error(f"no bundle: {error.filename or self._places.work_directory}: {error.strerror}")
            return state
        if made.leak is not None:
            self.leak = made.leak
            made.path.unlink(missing_ok=True)
            self._say.error(f"no bundle: a secret would have left the host with it ({made.leak})")
            return withheld(state, self._evidence)
        spooled = self._spool.keep(made.path)
        if isinstance(spooled, NotKept):
            made.path.unlink(missing_ok=True)
            self._say.error(f"no bundle: {spooled.reason}")
            return state
        self._say.notice(f"a bundle was made: {made.bytes} bytes, {made.masked} secrets masked")
        return kept(state, self._evidence)

    def _made(self, state: State, most_bytes: int) -> Bundled:
        at = datetime.now(UTC)
        service = self._settings.service
        context = Context(
            root=self._places.root,
            environ=self._environ,
            boot_id=self._evidence.boot_id,
            cursor=state.cursor if self._goes_on() else None,
            urls=tuple(
                filter(None, (service.url if service and service.is_usable else None, self._settings.api_url))
            ),
            ca_bundle=service.ca_bundle if service else None,
        )
        self._cursor = newest_cursor(context)
        self._places.work_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return make_bundle(
            self._places.work_directory,
            COLLECTORS,
            context,
            verdict=verdict.page(self._evidence, str(self._places.records), at),
            at=at,
            most_bytes=min(most_bytes, self._settings.disk_bytes),
            redact=self._settings.redact,
            secrets=secrets_in(self._settings),
        )

    def bundle(self, shipment: Shipment) -> Kept | None:
        """What is in the spool, unless it is more than this shipment may have."""
        spooled = self._spool.newest()
        if spooled is None or spooled.bytes > shipment.most:
            return None
        return spooled

    def ship(self, peers: Peers, shipment: Shipment, spooled: Kept, *, is_known: bool) -> Outcome:
        """Ship it, if there is time left in this round, and say what came of that."""
        left = self._deadline.left()
        if left < _LEAST_SECONDS:
            return Unreachable("no time is left in this round", tries=0)
        try:
            with peers.destination(shipment, left, is_known=is_known) as destination:
                outcome = destination.ship(spooled.path, shipment.tries)
        except ValueError as error:
            outcome = Unreachable(str(error), tries=0)
        if isinstance(outcome, Answered) and outcome.good:
            self._say.notice(f"{shipment.kind}: shipped {spooled.path.name}, {spooled.bytes} bytes")
        elif learn(Call.UPLOAD, outcome) is Meaning.NEVER_AGAIN:
            self._say.warning(f"{shipment.kind}: refused, and not tried again: {told_outcome(outcome)}")
        else:
            self._say.warning(f"{shipment.kind}: not shipped, and kept: {told_outcome(outcome)}")
        return outcome

    def settled(self, state: State) -> State:
        """The state when the spool is emptied of what every destination has that is not ruled out.

        What none of them has stays, also when all of them are ruled out.

        The next bundle goes on where this one ended, if no destination throws it away for the next. What a
        disk did not let go of in an earlier round goes now.
        """
        if state.bundle is None:
            self._spool.drop()
            return state
        wanting = [
            target
            for target in targets(Moment(self._settings, state, self._evidence))
            if state.bundle.fingerprint not in state.spent_at(target.destination).fingerprints
        ]
        if wanting or not state.is_delivered(state.bundle.fingerprint):
            return state
        self._spool.drop()
        goes_on = self._cursor is not None and self._goes_on()
        return replace(not_kept(state), cursor=self._cursor if goes_on else state.cursor)

    def _goes_on(self) -> bool:
        """Whether every destination keeps all bundles; a slot that is written over needs each one whole."""
        places = self._settings.ship_to
        return self._settings.service is None and all(to.startswith(("/", COLLECTOR)) for to in places)
