"""The tables. Times are seconds since 1970, by the clock of the collector unless the name says otherwise.

A new database begins with these; migrations (`migrations/`) make them of those of an earlier version.
`tests/collector/test_migrations.py` compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_ID = BigInteger().with_variant(Integer, "sqlite")  # only an INTEGER PRIMARY KEY counts up there


def _host(*, index: bool = False) -> Column[int]:
    return Column("host_id", _ID, ForeignKey("hosts.id", ondelete="CASCADE"), nullable=False, index=index)


hosts = Table(
    "hosts",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(253), nullable=False, unique=True),
    Column("group", String(255), nullable=False, server_default="", index=True),
    Column("release", String(255), nullable=False, server_default=""),
    Column("hardware", String(255), nullable=False, server_default=""),  # vendor and model
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    # The latest build, in short: the fleet is shown of this table alone.
    Column("build", Integer, nullable=False, server_default="0"),  # 0: none yet
    Column("action", String(255), nullable=False, server_default=""),
    Column("percentage", Double),
    Column("message", Text, nullable=False, server_default=""),
    Column("started_at", Double),
    Column("updated_at", Double),  # of the latest step, entry, stage or bundle
    Column("ended_at", Double),
    Column("progress", LargeBinary),  # collector.progress.Progress, as JSON
    # Until it is judged, a host is progressing. SQLite cannot change the default of a column that it has.
    Column("verdict", String(16), nullable=False, default="progressing", server_default="silent"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("cause", String(16), nullable=False, server_default=""),  # verdicts.cause_of
    Column("verdict_since", Double),
    Column("due_at", Double, index=True),  # when the verdict changes if nothing is heard
    Column("revision", BigInteger, nullable=False, server_default="0"),  # counts up with every change
    Column("records_verdict", LargeBinary),  # collector.verdicts.RecordsVerdict, as JSON
    # The order of the fleet's pages, and its causes. Rows of hosts are long, so the indexes have all columns
    # that the pages search and count by. Do not add a column that changes with each report: PostgreSQL would
    # then update every index of the table each time.
    Index("ix_hosts_fleet", "verdict", "name", "cause", "group", "ended_at"),
    Index("ix_hosts_causes", "cause", "group", "verdict", "verdict_since", "ended_at", "name", "id"),
)

builds = Table(
    "builds",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(),
    Column("number", Integer, nullable=False),  # 1 is the first of a host
    Column("key", String(255), nullable=False, server_default=""),  # what its template calls it
    Column("action", String(255), nullable=False, server_default=""),
    Column("release", String(255), nullable=False, server_default=""),
    Column("started_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("verdict", String(16), nullable=False, server_default="progressing"),
    Column("reason", Text, nullable=False, server_default=""),
    UniqueConstraint("host_id", "number"),
)

steps = Table(
    "steps",
    metadata,
    Column("id", _ID, primary_key=True),  # the order in which they came
    _host(),
    Column("build", Integer, nullable=False),
    Column("label", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("status", String(16), nullable=False),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("percentage", Double),
    Column("action", String(255), nullable=False, server_default=""),
    Column("logs", Text, nullable=False, server_default=""),
    Column("notes", Text, nullable=False, server_default=""),  # lines
    Column("boot_id", String(64), nullable=False, server_default=""),
    Column("host_time", Double),
    Column("received_at", Double, nullable=False),
    Column("is_known", Boolean, nullable=False, server_default="1"),
    Column("identity", BigInteger, index=True),  # domain.steps.identify_report; null before version 0.3
    Index("ix_steps_host_id_build_id", "host_id", "build", "id"),
)

COUNTERS = ("steps", "housekeeping")
counters = Table(  # numbers that are given once, whatever is deleted: of `steps`, the id of the latest
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("latest", BigInteger, nullable=False),
)
step_numbers = Sequence("step_numbers", metadata=metadata)  # in place of that counter, where there are any

absences = Table(  # when no process of the collector took reports
    "absences",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False, index=True),
)

durations = Table(  # what budgets and statistics are learnt from: one row for each step that ended
    "durations",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(index=True),
    Column("build", Integer, nullable=False),
    Column("label", String(255), nullable=False),
    Column("group", String(255), nullable=False, server_default=""),
    Column("release", String(255), nullable=False, server_default=""),
    Column("seconds", Double),  # null where its beginning was not reported
    Column("status", String(16), nullable=False),
    Column("signature", Text, nullable=False, server_default=""),  # of a failure's logs
    Column("ended_at", Double, nullable=False),
    Index("ix_durations_label_ended_at", "label", "ended_at"),
)

chunks = Table(  # service records live: pieces of record files, byte for byte
    "chunks",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(),
    Column("service", String(255), nullable=False),
    Column("file", String(64), nullable=False),  # tells a file from the one that took its place
    Column("offset", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("received_at", Double, nullable=False),
    UniqueConstraint("host_id", "service", "file", "offset"),
)

last_words = Table(  # of each service of a host, the lines that it printed last
    "last_words",
    metadata,
    _host(),
    Column("service", String(255), nullable=False),
    Column("stage", String(255), nullable=False, server_default=""),
    Column("build", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("received_at", Double, nullable=False),
    PrimaryKeyConstraint("host_id", "service"),
)

bundles = Table(
    "bundles",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(index=True),
    Column("build", Integer, nullable=False),
    Column("kind", String(32), nullable=False),  # `host`, `host_boot`
    Column("name", String(255), nullable=False),
    Column("key", String(255), nullable=False, unique=True),  # of the object
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("received_at", Double, nullable=False),
    Column("is_indexed", Boolean, nullable=False, server_default="0"),
    Column("claimed_until", Double),  # by the process that reads it; null where none does
    Column("verdict", String(16), nullable=False, server_default=""),  # of its records
    Column("reason", Text, nullable=False, server_default=""),
    Column("boots", Text, nullable=False, server_default=""),  # ids, a line each, oldest first
    Column("left_out", Text, nullable=False, server_default=""),  # what of it could not be read, a line each
)

bundle_services = Table(
    "bundle_services",
    metadata,
    Column("bundle_id", _ID, ForeignKey("bundles.id", ondelete="CASCADE"), primary_key=True),
    Column("service", String(255), primary_key=True),
    Column("entries", BigInteger, nullable=False),
    Column("malformed", Integer, nullable=False),
    Column("outcome", String(16), nullable=False),  # of its latest run
    Column("stage", Text, nullable=False, server_default=""),
)

analyses = Table(  # of each host, of its latest bundle with records: the parts of a page
    "analyses",
    metadata,
    Column("host_id", _ID, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True),
    Column("bundle_id", _ID, nullable=False, index=True),
    Column("data", LargeBinary, nullable=False),  # collector.domain.records_page.Analysis, JSON, deflated
)

installations = Table(  # what an assisted-service knows of a host
    "installations",
    metadata,
    Column("host_id", _ID, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True),
    Column("id", String(36), nullable=False, unique=True),  # the host's there
    Column("cluster_id", String(36), nullable=False, index=True),
    Column("infra_env_id", String(36), nullable=False),
    Column("role", String(32), nullable=False, server_default="master"),
    Column("is_bootstrap", Boolean, nullable=False, server_default="0"),
    Column("is_single_node", Boolean, nullable=False, server_default="0"),
    Column("status", String(64), nullable=False, server_default="installing-in-progress"),
    Column("status_info", Text, nullable=False, server_default=""),
    Column("stage", String(64), nullable=False, server_default="Rebooting"),
    Column("info", Text, nullable=False, server_default=""),
    Column("stage_started_at", Double, nullable=False),
    Column("stage_updated_at", Double, nullable=False),
    Column("checked_in_at", Double),  # the latest call of its agent
    Column("logs_state", String(16), nullable=False, server_default=""),
    Column("event_at", Double),  # event_time of the newest event that reported a state
)


def _cluster() -> Column[str]:
    return Column("cluster_id", String(36), ForeignKey("clusters.id", ondelete="CASCADE"), nullable=False)


clusters = Table(  # what is known of a cluster; its hosts are those of `installations`
    "clusters",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(255), nullable=False, server_default=""),
    Column("control_planes", Integer),  # of its definition; null where nobody told
    Column("workers", Integer),
    Column("status", String(32), nullable=False, server_default="pending-for-input"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("since", Double),  # when it got into that state
    Column("is_told", Boolean, nullable=False, server_default="0"),  # the service told the state itself
    Column("updated_at", Double),
    Column("revision", BigInteger, nullable=False, server_default="0"),  # counts up with every change
    # The hosts in short, so that a list of clusters is read of this table alone.
    Column("hosts", Integer, nullable=False, server_default="0"),
    Column("needed_control_planes", Integer, nullable=False, server_default="0"),
    Column("installed_control_planes", Integer, nullable=False, server_default="0"),
    Column("defined_workers", Integer, nullable=False, server_default="0"),
    Column("installed_workers", Integer, nullable=False, server_default="0"),
    Column("joined", Integer, nullable=False, server_default="0"),
    # What its controller reports.
    Column("csrs_approved", Integer),
    Column("finalizing_stage", String(64), nullable=False, server_default=""),
    Column("completion", String(16), nullable=False, server_default=""),  # `success`, `failure`
    Column("completion_info", Text, nullable=False, server_default=""),
    Column("logs_state", String(16), nullable=False, server_default=""),
    Column("event_at", Double),  # event_time of the newest event that reported a state
)

cluster_operators = Table(
    "cluster_operators",
    metadata,
    _cluster(),
    Column("name", String(255), nullable=False),
    Column("status", String(16), nullable=False, server_default=""),
    Column("version", String(255), nullable=False, server_default=""),
    Column("info", Text, nullable=False, server_default=""),
    Column("updated_at", Double, nullable=False),
    Column("event_at", Double),  # event_time, if an event reported the status
    PrimaryKeyConstraint("cluster_id", "name"),
)

cluster_events = Table(
    "cluster_events",
    metadata,
    Column("id", _ID, primary_key=True),
    _cluster(),
    Column("received_at", Double, nullable=False),
    Column("severity", String(16), nullable=False),
    Column("name", String(255), nullable=False, server_default=""),
    Column("message", Text, nullable=False),
    Column("event_time", Double),  # by the assisted-service's clock
    Index("ix_cluster_events_cluster_id", "cluster_id"),
)

cluster_logs = Table(  # one of each kind, the latest, as the assisted-service has it
    "cluster_logs",
    metadata,
    _cluster(),
    Column("kind", String(32), nullable=False),  # `controller`, `all`
    Column("name", String(255), nullable=False),
    Column("key", String(255), nullable=False, unique=True),  # of the object
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("received_at", Double, nullable=False),
    PrimaryKeyConstraint("cluster_id", "kind"),
)

events = Table(
    "events",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(index=True),
    Column("received_at", Double, nullable=False),
    Column("severity", String(16), nullable=False),
    Column("name", String(255), nullable=False, server_default=""),
    Column("message", Text, nullable=False),
    Column("event_time", Double),  # by the assisted-service's clock
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("kind", String(16), nullable=False),  # host, group, reader, admin, enrolment
    Column("scope", String(255), nullable=False, server_default=""),  # a host's name, or a group's
    Column("name", String(255), nullable=False, server_default=""),  # for people
    Column("hash", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("created_by", String(255), nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("used_at", Double),  # of an enrolment token: it is worth nothing any more
)

sessions = Table(  # of people in a browser
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("token_id", _ID, ForeignKey("tokens.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", Double, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("at", Double, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", Text, nullable=False),
)

mutes = Table(  # trouble of which no news are wanted
    "mutes",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("kind", String(16), nullable=False),  # domain.mutes.MuteKind
    Column("scope", String(16), nullable=False),  # host, group, cause
    Column("subject", String(255), nullable=False),
    Column("until", Double, nullable=False),
    Column("by", String(255), nullable=False),
    Column("note", String(255), nullable=False, server_default=""),
    Column("made_at", Double, nullable=False),
)

notices = Table(  # news of verdicts
    "notices",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(),
    Column("build", Integer, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("before", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("reason_before", Text, nullable=False, server_default=""),
    Column("at", Double, nullable=False),
    Column("is_addressed", Boolean, nullable=False, server_default="0", index=True),  # has its deliveries
)

deliveries = Table(  # of one notice to one destination
    "deliveries",
    metadata,
    Column("notice_id", _ID, ForeignKey("notices.id", ondelete="CASCADE"), nullable=False),
    Column("destination", String(32), nullable=False),
    Column("delivered_at", Double),
    Column("digest", _ID),  # the first of the news that are told with it
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_at", Double),  # null when delivered or given up
    PrimaryKeyConstraint("notice_id", "destination"),
    Index("ix_deliveries_destination_next_at", "destination", "next_at"),
)
