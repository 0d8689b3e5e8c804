CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.allowances (
    key character varying(255) NOT NULL,
    used bigint NOT NULL,
    at double precision NOT NULL
);
CREATE TABLE public.analyses (
    host_id bigint NOT NULL,
    bundle_id bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE public.audit (
    id bigint NOT NULL,
    at double precision NOT NULL,
    actor character varying(255) NOT NULL,
    action character varying(64) NOT NULL,
    subject text NOT NULL
);
CREATE SEQUENCE public.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.audit_id_seq OWNED BY public.audit.id;
CREATE TABLE public.builds (
    id bigint NOT NULL,
    host_id bigint NOT NULL,
    number integer NOT NULL,
    key character varying(255) DEFAULT ''::character varying NOT NULL,
    action character varying(255) DEFAULT ''::character varying NOT NULL,
    release character varying(255) DEFAULT ''::character varying NOT NULL,
    started_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    ended_at double precision,
    verdict character varying(16) DEFAULT 'progressing'::character varying NOT NULL,
    reason text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.builds_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.builds_id_seq OWNED BY public.builds.id;
CREATE TABLE public.bundle_services (
    bundle_id bigint NOT NULL,
    service character varying(255) NOT NULL,
    entries bigint NOT NULL,
    malformed integer NOT NULL,
    outcome character varying(16) NOT NULL,
    stage text DEFAULT ''::text NOT NULL
);
CREATE TABLE public.bundles (
    id bigint NOT NULL,
    host_id bigint NOT NULL,
    build integer NOT NULL,
    kind character varying(32) NOT NULL,
    name character varying(255) NOT NULL,
    key character varying(255) NOT NULL,
    size bigint NOT NULL,
    sha256 character varying(64) NOT NULL,
    received_at double precision NOT NULL,
    is_indexed boolean DEFAULT false NOT NULL,
    verdict character varying(16) DEFAULT ''::character varying NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    boots text DEFAULT ''::text NOT NULL,
    left_out text DEFAULT ''::text NOT NULL,
    claimed_until double precision
);
CREATE SEQUENCE public.bundles_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.bundles_id_seq OWNED BY public.bundles.id;
CREATE TABLE public.chunks (
    id bigint NOT NULL,
    host_id bigint NOT NULL,
    service character varying(255) NOT NULL,
    file character varying(64) NOT NULL,
    "offset" bigint NOT NULL,
    data bytea NOT NULL,
    received_at double precision NOT NULL
);
CREATE SEQUENCE public.chunks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.chunks_id_seq OWNED BY public.chunks.id;
CREATE TABLE public.cluster_events (
    id bigint NOT NULL,
    cluster_id character varying(36) NOT NULL,
    received_at double precision NOT NULL,
    severity character varying(16) NOT NULL,
    name character varying(255) DEFAULT ''::character varying NOT NULL,
    message text NOT NULL
);
CREATE SEQUENCE public.cluster_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.cluster_events_id_seq OWNED BY public.cluster_events.id;
CREATE TABLE public.cluster_logs (
    cluster_id character varying(36) NOT NULL,
    kind character varying(32) NOT NULL,
    name character varying(255) NOT NULL,
    key character varying(255) NOT NULL,
    size bigint NOT NULL,
    sha256 character varying(64) NOT NULL,
    received_at double precision NOT NULL
);
CREATE TABLE public.cluster_operators (
    cluster_id character varying(36) NOT NULL,
    name character varying(255) NOT NULL,
    status character varying(16) DEFAULT ''::character varying NOT NULL,
    version character varying(255) DEFAULT ''::character varying NOT NULL,
    info text DEFAULT ''::text NOT NULL,
    updated_at double precision NOT NULL
);
CREATE TABLE public.clusters (
    id character varying(36) NOT NULL,
    name character varying(255) DEFAULT ''::character varying NOT NULL,
    control_planes integer,
    workers integer,
    status character varying(32) DEFAULT 'pending-for-input'::character varying NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    since double precision,
    is_told boolean DEFAULT false NOT NULL,
    updated_at double precision,
    revision bigint DEFAULT '0'::bigint NOT NULL,
    hosts integer DEFAULT 0 NOT NULL,
    needed_control_planes integer DEFAULT 0 NOT NULL,
    installed_control_planes integer DEFAULT 0 NOT NULL,
    defined_workers integer DEFAULT 0 NOT NULL,
    installed_workers integer DEFAULT 0 NOT NULL,
    joined integer DEFAULT 0 NOT NULL,
    csrs_approved integer,
    finalizing_stage character varying(64) DEFAULT ''::character varying NOT NULL,
    completion character varying(16) DEFAULT ''::character varying NOT NULL,
    completion_info text DEFAULT ''::text NOT NULL,
    logs_state character varying(16) DEFAULT ''::character varying NOT NULL
);
CREATE TABLE public.counters (
    name character varying(32) NOT NULL,
    latest bigint NOT NULL
);
CREATE TABLE public.durations (
    id bigint NOT NULL,
    host_id bigint NOT NULL,
    build integer NOT NULL,
    label character varying(255) NOT NULL,
    "group" character varying(255) DEFAULT ''::character varying NOT NULL,
    release character varying(255) DEFAULT ''::character varying NOT NULL,
    seconds double precision,
    status character varying(16) NOT NULL,
    signature text DEFAULT ''::text NOT NULL,
    ended_at double precision NOT NULL
);
CREATE SEQUENCE public.durations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.durations_id_seq OWNED BY public.durations.id;
CREATE TABLE public.events (
    id bigint NOT NULL,
    host_id bigint NOT NULL,
    received_at double precision NOT NULL,
    severity character varying(16) NOT NULL,
    name character varying(255) DEFAULT ''::character varying NOT NULL,
    message text NOT NULL
);
CREATE SEQUENCE public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.events_id_seq OWNED BY public.events.id;
CREATE TABLE public.hosts (
    id bigint NOT NULL,
    name character varying(253) NOT NULL,
    "group" character varying(255) DEFAULT ''::character varying NOT NULL,
    release character varying(255) DEFAULT ''::character varying NOT NULL,
    first_seen double precision NOT NULL,
    last_seen double precision NOT NULL,
    build integer DEFAULT 0 NOT NULL,
    action character varying(255) DEFAULT ''::character varying NOT NULL,
    percentage double precision,
    message text DEFAULT ''::text NOT NULL,
    started_at double precision,
    updated_at double precision,
    ended_at double precision,
    progress bytea,
    verdict character varying(16) DEFAULT 'silent'::character varying NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    verdict_since double precision,
    due_at double precision,
    revision bigint DEFAULT '0'::bigint NOT NULL,
    records_verdict bytea,
    cause character varying(16) DEFAULT ''::character varying NOT NULL
);
CREATE SEQUENCE public.hosts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.hosts_id_seq OWNED BY public.hosts.id;
CREATE TABLE public.installations (
    host_id bigint NOT NULL,
    id character varying(36) NOT NULL,
    cluster_id character varying(36) NOT NULL,
    infra_env_id character varying(36) NOT NULL,
    role character varying(32) DEFAULT 'master'::character varying NOT NULL,
    is_bootstrap boolean DEFAULT false NOT NULL,
    is_single_node boolean DEFAULT false NOT NULL,
    status character varying(64) DEFAULT 'installing-in-progress'::character varying NOT NULL,
    stage character varying(64) DEFAULT 'Rebooting'::character varying NOT NULL,
    info text DEFAULT ''::text NOT NULL,
    stage_started_at double precision NOT NULL,
    stage_updated_at double precision NOT NULL,
    logs_state character varying(16) DEFAULT ''::character varying NOT NULL,
    status_info text DEFAULT ''::text NOT NULL,
    checked_in_at double precision
);
CREATE TABLE public.mutes (
    id bigint NOT NULL,
    kind character varying(16) NOT NULL,
    scope character varying(16) NOT NULL,
    subject character varying(255) NOT NULL,
    until double precision NOT NULL,
    by character varying(255) NOT NULL,
    note character varying(255) DEFAULT ''::character varying NOT NULL,
    made_at double precision NOT NULL
);
CREATE SEQUENCE public.mutes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.mutes_id_seq OWNED BY public.mutes.id;
CREATE TABLE public.notices (
    id bigint NOT NULL,
    host_id bigint NOT NULL,
    build integer NOT NULL,
    verdict character varying(16) NOT NULL,
    before character varying(16) NOT NULL,
    reason text NOT NULL,
    at double precision NOT NULL,
    delivered_at double precision,
    tries integer DEFAULT 0 NOT NULL,
    next_at double precision,
    digest bigint
);
CREATE SEQUENCE public.notices_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.notices_id_seq OWNED BY public.notices.id;
CREATE TABLE public.sessions (
    hash character varying(64) NOT NULL,
    token_id bigint NOT NULL,
    expires_at double precision NOT NULL
);
CREATE SEQUENCE public.step_numbers
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.steps (
    id bigint NOT NULL,
    host_id bigint NOT NULL,
    build integer NOT NULL,
    label character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    status character varying(16) NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    percentage double precision,
    action character varying(255) DEFAULT ''::character varying NOT NULL,
    logs text DEFAULT ''::text NOT NULL,
    notes text DEFAULT ''::text NOT NULL,
    boot_id character varying(64) DEFAULT ''::character varying NOT NULL,
    host_time double precision,
    received_at double precision NOT NULL,
    is_known boolean DEFAULT true NOT NULL
);
CREATE SEQUENCE public.steps_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.steps_id_seq OWNED BY public.steps.id;
CREATE TABLE public.tokens (
    id bigint NOT NULL,
    kind character varying(16) NOT NULL,
    scope character varying(255) DEFAULT ''::character varying NOT NULL,
    name character varying(255) DEFAULT ''::character varying NOT NULL,
    hash character varying(64) NOT NULL,
    created_at double precision NOT NULL,
    created_by character varying(255) NOT NULL,
    expires_at double precision,
    revoked_at double precision,
    used_at double precision
);
CREATE SEQUENCE public.tokens_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.tokens_id_seq OWNED BY public.tokens.id;
ALTER TABLE ONLY public.audit ALTER COLUMN id SET DEFAULT nextval('public.audit_id_seq'::regclass);
ALTER TABLE ONLY public.builds ALTER COLUMN id SET DEFAULT nextval('public.builds_id_seq'::regclass);
ALTER TABLE ONLY public.bundles ALTER COLUMN id SET DEFAULT nextval('public.bundles_id_seq'::regclass);
ALTER TABLE ONLY public.chunks ALTER COLUMN id SET DEFAULT nextval('public.chunks_id_seq'::regclass);
ALTER TABLE ONLY public.cluster_events ALTER COLUMN id SET DEFAULT nextval('public.cluster_events_id_seq'::regclass);
ALTER TABLE ONLY public.durations ALTER COLUMN id SET DEFAULT nextval('public.durations_id_seq'::regclass);
ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);
ALTER TABLE ONLY public.hosts ALTER COLUMN id SET DEFAULT nextval('public.hosts_id_seq'::regclass);
ALTER TABLE ONLY public.mutes ALTER COLUMN id SET DEFAULT nextval('public.mutes_id_seq'::regclass);
ALTER TABLE ONLY public.notices ALTER COLUMN id SET DEFAULT nextval('public.notices_id_seq'::regclass);
ALTER TABLE ONLY public.steps ALTER COLUMN id SET DEFAULT nextval('public.steps_id_seq'::regclass);
ALTER TABLE ONLY public.tokens ALTER COLUMN id SET DEFAULT nextval('public.tokens_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0007');
INSERT INTO public.counters VALUES ('steps', 0);
INSERT INTO public.counters VALUES ('housekeeping', 0);
SELECT pg_catalog.setval('public.audit_id_seq', 1, false);
SELECT pg_catalog.setval('public.builds_id_seq', 1, false);
SELECT pg_catalog.setval('public.bundles_id_seq', 1, false);
SELECT pg_catalog.setval('public.chunks_id_seq', 1, false);
SELECT pg_catalog.setval('public.cluster_events_id_seq', 1, false);
SELECT pg_catalog.setval('public.durations_id_seq', 1, false);
SELECT pg_catalog.setval('public.events_id_seq', 1, false);
SELECT pg_catalog.setval('public.hosts_id_seq', 1, false);
SELECT pg_catalog.setval('public.mutes_id_seq', 1, false);
SELECT pg_catalog.setval('public.notices_id_seq', 1, false);
SELECT pg_catalog.setval('public.step_numbers', 1, false);
SELECT pg_catalog.setval('public.steps_id_seq', 1, false);
SELECT pg_catalog.setval('public.tokens_id_seq', 1, false);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.allowances
    ADD CONSTRAINT pk_allowances PRIMARY KEY (key);
ALTER TABLE ONLY public.analyses
    ADD CONSTRAINT pk_analyses PRIMARY KEY (host_id);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT pk_audit PRIMARY KEY (id);
ALTER TABLE ONLY public.builds
    ADD CONSTRAINT pk_builds PRIMARY KEY (id);
ALTER TABLE ONLY public.bundle_services
    ADD CONSTRAINT pk_bundle_services PRIMARY KEY (bundle_id, service);
ALTER TABLE ONLY public.bundles
    ADD CONSTRAINT pk_bundles PRIMARY KEY (id);
ALTER TABLE ONLY public.chunks
    ADD CONSTRAINT pk_chunks PRIMARY KEY (id);
ALTER TABLE ONLY public.cluster_events
    ADD CONSTRAINT pk_cluster_events PRIMARY KEY (id);
ALTER TABLE ONLY public.cluster_logs
    ADD CONSTRAINT pk_cluster_logs PRIMARY KEY (cluster_id, kind);
ALTER TABLE ONLY public.cluster_operators
    ADD CONSTRAINT pk_cluster_operators PRIMARY KEY (cluster_id, name);
ALTER TABLE ONLY public.clusters
    ADD CONSTRAINT pk_clusters PRIMARY KEY (id);
ALTER TABLE ONLY public.counters
    ADD CONSTRAINT pk_counters PRIMARY KEY (name);
ALTER TABLE ONLY public.durations
    ADD CONSTRAINT pk_durations PRIMARY KEY (id);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT pk_events PRIMARY KEY (id);
ALTER TABLE ONLY public.hosts
    ADD CONSTRAINT pk_hosts PRIMARY KEY (id);
ALTER TABLE ONLY public.installations
    ADD CONSTRAINT pk_installations PRIMARY KEY (host_id);
ALTER TABLE ONLY public.mutes
    ADD CONSTRAINT pk_mutes PRIMARY KEY (id);
ALTER TABLE ONLY public.notices
    ADD CONSTRAINT pk_notices PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT pk_sessions PRIMARY KEY (hash);
ALTER TABLE ONLY public.steps
    ADD CONSTRAINT pk_steps PRIMARY KEY (id);
ALTER TABLE ONLY public.tokens
    ADD CONSTRAINT pk_tokens PRIMARY KEY (id);
ALTER TABLE ONLY public.builds
    ADD CONSTRAINT uq_builds_host_id_number UNIQUE (host_id, number);
ALTER TABLE ONLY public.bundles
    ADD CONSTRAINT uq_bundles_key UNIQUE (key);
ALTER TABLE ONLY public.chunks
    ADD CONSTRAINT uq_chunks_host_id_service_file_offset UNIQUE (host_id, service, file, "offset");
ALTER TABLE ONLY public.cluster_logs
    ADD CONSTRAINT uq_cluster_logs_key UNIQUE (key);
ALTER TABLE ONLY public.hosts
    ADD CONSTRAINT uq_hosts_name UNIQUE (name);
ALTER TABLE ONLY public.installations
    ADD CONSTRAINT uq_installations_id UNIQUE (id);
CREATE INDEX ix_analyses_bundle_id ON public.analyses USING btree (bundle_id);
CREATE INDEX ix_bundles_host_id ON public.bundles USING btree (host_id);
CREATE INDEX ix_cluster_events_cluster_id ON public.cluster_events USING btree (cluster_id);
CREATE INDEX ix_durations_host_id ON public.durations USING btree (host_id);
CREATE INDEX ix_durations_label_ended_at ON public.durations USING btree (label, ended_at);
CREATE INDEX ix_events_host_id ON public.events USING btree (host_id);
CREATE INDEX ix_hosts_cause ON public.hosts USING btree (cause);
CREATE INDEX ix_hosts_due_at ON public.hosts USING btree (due_at);
CREATE INDEX ix_hosts_group ON public.hosts USING btree ("group");
CREATE INDEX ix_hosts_verdict_name ON public.hosts USING btree (verdict, name);
CREATE INDEX ix_installations_cluster_id ON public.installations USING btree (cluster_id);
CREATE INDEX ix_notices_next_at ON public.notices USING btree (next_at);
CREATE INDEX ix_steps_host_id_build_id ON public.steps USING btree (host_id, build, id);
ALTER TABLE ONLY public.analyses
    ADD CONSTRAINT fk_analyses_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.builds
    ADD CONSTRAINT fk_builds_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.bundle_services
    ADD CONSTRAINT fk_bundle_services_bundle_id FOREIGN KEY (bundle_id) REFERENCES public.bundles(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.bundles
    ADD CONSTRAINT fk_bundles_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.chunks
    ADD CONSTRAINT fk_chunks_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.cluster_events
    ADD CONSTRAINT fk_cluster_events_cluster_id FOREIGN KEY (cluster_id) REFERENCES public.clusters(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.cluster_logs
    ADD CONSTRAINT fk_cluster_logs_cluster_id FOREIGN KEY (cluster_id) REFERENCES public.clusters(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.cluster_operators
    ADD CONSTRAINT fk_cluster_operators_cluster_id FOREIGN KEY (cluster_id) REFERENCES public.clusters(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.durations
    ADD CONSTRAINT fk_durations_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.events
    ADD CONSTRAINT fk_events_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.installations
    ADD CONSTRAINT fk_installations_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.notices
    ADD CONSTRAINT fk_notices_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT fk_sessions_token_id FOREIGN KEY (token_id) REFERENCES public.tokens(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.steps
    ADD CONSTRAINT fk_steps_host_id FOREIGN KEY (host_id) REFERENCES public.hosts(id) ON DELETE CASCADE;
