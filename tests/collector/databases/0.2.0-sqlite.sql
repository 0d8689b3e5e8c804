BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
CREATE TABLE allowances (
	"key" VARCHAR(255) NOT NULL,
	used BIGINT NOT NULL,
	at DOUBLE NOT NULL,
	CONSTRAINT pk_allowances PRIMARY KEY ("key")
);
CREATE TABLE analyses (
	host_id INTEGER NOT NULL,
	bundle_id INTEGER NOT NULL,
	data BLOB NOT NULL,
	CONSTRAINT pk_analyses PRIMARY KEY (host_id),
	CONSTRAINT fk_analyses_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE
);
CREATE TABLE audit (
	id INTEGER NOT NULL,
	at DOUBLE NOT NULL,
	actor VARCHAR(255) NOT NULL,
	action VARCHAR(64) NOT NULL,
	subject TEXT NOT NULL,
	CONSTRAINT pk_audit PRIMARY KEY (id)
);
CREATE TABLE builds (
	id INTEGER NOT NULL,
	host_id INTEGER NOT NULL,
	number INTEGER NOT NULL,
	"key" VARCHAR(255) DEFAULT '' NOT NULL,
	action VARCHAR(255) DEFAULT '' NOT NULL,
	release VARCHAR(255) DEFAULT '' NOT NULL,
	started_at DOUBLE NOT NULL,
	updated_at DOUBLE NOT NULL,
	ended_at DOUBLE,
	verdict VARCHAR(16) DEFAULT 'progressing' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	CONSTRAINT pk_builds PRIMARY KEY (id),
	CONSTRAINT fk_builds_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE,
	CONSTRAINT uq_builds_host_id_number UNIQUE (host_id, number)
);
CREATE TABLE bundle_services (
	bundle_id INTEGER NOT NULL,
	service VARCHAR(255) NOT NULL,
	entries BIGINT NOT NULL,
	malformed INTEGER NOT NULL,
	outcome VARCHAR(16) NOT NULL,
	stage TEXT DEFAULT '' NOT NULL,
	CONSTRAINT pk_bundle_services PRIMARY KEY (bundle_id, service),
	CONSTRAINT fk_bundle_services_bundle_id FOREIGN KEY(bundle_id) REFERENCES bundles (id) ON DELETE CASCADE
);
CREATE TABLE bundles (
	id INTEGER NOT NULL,
	host_id INTEGER NOT NULL,
	build INTEGER NOT NULL,
	kind VARCHAR(32) NOT NULL,
	name VARCHAR(255) NOT NULL,
	"key" VARCHAR(255) NOT NULL,
	size BIGINT NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	received_at DOUBLE NOT NULL,
	is_indexed BOOLEAN DEFAULT '0' NOT NULL,
	verdict VARCHAR(16) DEFAULT '' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	boots TEXT DEFAULT '' NOT NULL,
	left_out TEXT DEFAULT '' NOT NULL, claimed_until DOUBLE,
	CONSTRAINT pk_bundles PRIMARY KEY (id),
	CONSTRAINT fk_bundles_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE,
	CONSTRAINT uq_bundles_key UNIQUE ("key")
);
CREATE TABLE chunks (
	id INTEGER NOT NULL,
	host_id INTEGER NOT NULL,
	service VARCHAR(255) NOT NULL,
	file VARCHAR(64) NOT NULL,
	"offset" BIGINT NOT NULL,
	data BLOB NOT NULL,
	received_at DOUBLE NOT NULL,
	CONSTRAINT pk_chunks PRIMARY KEY (id),
	CONSTRAINT fk_chunks_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE,
	CONSTRAINT uq_chunks_host_id_service_file_offset UNIQUE (host_id, service, file, "offset")
);
CREATE TABLE cluster_events (
	id INTEGER NOT NULL,
	cluster_id VARCHAR(36) NOT NULL,
	received_at DOUBLE NOT NULL,
	severity VARCHAR(16) NOT NULL,
	name VARCHAR(255) DEFAULT '' NOT NULL,
	message TEXT NOT NULL,
	CONSTRAINT pk_cluster_events PRIMARY KEY (id),
	CONSTRAINT fk_cluster_events_cluster_id FOREIGN KEY(cluster_id) REFERENCES clusters (id) ON DELETE CASCADE
);
CREATE TABLE cluster_logs (
	cluster_id VARCHAR(36) NOT NULL,
	kind VARCHAR(32) NOT NULL,
	name VARCHAR(255) NOT NULL,
	"key" VARCHAR(255) NOT NULL,
	size BIGINT NOT NULL,
	sha256 VARCHAR(64) NOT NULL,
	received_at DOUBLE NOT NULL,
	CONSTRAINT pk_cluster_logs PRIMARY KEY (cluster_id, kind),
	CONSTRAINT fk_cluster_logs_cluster_id FOREIGN KEY(cluster_id) REFERENCES clusters (id) ON DELETE CASCADE,
	CONSTRAINT uq_cluster_logs_key UNIQUE ("key")
);
CREATE TABLE cluster_operators (
	cluster_id VARCHAR(36) NOT NULL,
	name VARCHAR(255) NOT NULL,
	status VARCHAR(16) DEFAULT '' NOT NULL,
	version VARCHAR(255) DEFAULT '' NOT NULL,
	info TEXT DEFAULT '' NOT NULL,
	updated_at DOUBLE NOT NULL,
	CONSTRAINT pk_cluster_operators PRIMARY KEY (cluster_id, name),
	CONSTRAINT fk_cluster_operators_cluster_id FOREIGN KEY(cluster_id) REFERENCES clusters (id) ON DELETE CASCADE
);
CREATE TABLE clusters (
	id VARCHAR(36) NOT NULL,
	name VARCHAR(255) DEFAULT '' NOT NULL,
	control_planes INTEGER,
	workers INTEGER,
	status VARCHAR(32) DEFAULT 'pending-for-input' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	since DOUBLE,
	is_told BOOLEAN DEFAULT '0' NOT NULL,
	updated_at DOUBLE,
	revision BIGINT DEFAULT '0' NOT NULL,
	hosts INTEGER DEFAULT '0' NOT NULL,
	needed_control_planes INTEGER DEFAULT '0' NOT NULL,
	installed_control_planes INTEGER DEFAULT '0' NOT NULL,
	defined_workers INTEGER DEFAULT '0' NOT NULL,
	installed_workers INTEGER DEFAULT '0' NOT NULL,
	joined INTEGER DEFAULT '0' NOT NULL,
	csrs_approved INTEGER,
	finalizing_stage VARCHAR(64) DEFAULT '' NOT NULL,
	completion VARCHAR(16) DEFAULT '' NOT NULL,
	completion_info TEXT DEFAULT '' NOT NULL,
	logs_state VARCHAR(16) DEFAULT '' NOT NULL,
	CONSTRAINT pk_clusters PRIMARY KEY (id)
);
CREATE TABLE counters (
	name VARCHAR(32) NOT NULL,
	latest BIGINT NOT NULL,
	CONSTRAINT pk_counters PRIMARY KEY (name)
);
INSERT INTO "counters" VALUES('steps',0);
INSERT INTO "counters" VALUES('housekeeping',0);
CREATE TABLE durations (
	id INTEGER NOT NULL,
	host_id INTEGER NOT NULL,
	build INTEGER NOT NULL,
	label VARCHAR(255) NOT NULL,
	"group" VARCHAR(255) DEFAULT '' NOT NULL,
	release VARCHAR(255) DEFAULT '' NOT NULL,
	seconds DOUBLE,
	status VARCHAR(16) NOT NULL,
	signature TEXT DEFAULT '' NOT NULL,
	ended_at DOUBLE NOT NULL,
	CONSTRAINT pk_durations PRIMARY KEY (id),
	CONSTRAINT fk_durations_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE
);
CREATE TABLE events (
	id INTEGER NOT NULL,
	host_id INTEGER NOT NULL,
	received_at DOUBLE NOT NULL,
	severity VARCHAR(16) NOT NULL,
	name VARCHAR(255) DEFAULT '' NOT NULL,
	message TEXT NOT NULL,
	CONSTRAINT pk_events PRIMARY KEY (id),
	CONSTRAINT fk_events_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE
);
CREATE TABLE hosts (
	id INTEGER NOT NULL,
	name VARCHAR(253) NOT NULL,
	"group" VARCHAR(255) DEFAULT '' NOT NULL,
	release VARCHAR(255) DEFAULT '' NOT NULL,
	first_seen DOUBLE NOT NULL,
	last_seen DOUBLE NOT NULL,
	build INTEGER DEFAULT '0' NOT NULL,
	action VARCHAR(255) DEFAULT '' NOT NULL,
	percentage DOUBLE,
	message TEXT DEFAULT '' NOT NULL,
	started_at DOUBLE,
	updated_at DOUBLE,
	ended_at DOUBLE,
	progress BLOB,
	verdict VARCHAR(16) DEFAULT 'silent' NOT NULL,
	reason TEXT DEFAULT '' NOT NULL,
	verdict_since DOUBLE,
	due_at DOUBLE,
	revision BIGINT DEFAULT '0' NOT NULL,
	records_verdict BLOB, cause VARCHAR(16) DEFAULT '' NOT NULL,
	CONSTRAINT pk_hosts PRIMARY KEY (id),
	CONSTRAINT uq_hosts_name UNIQUE (name)
);
CREATE TABLE installations (
	host_id INTEGER NOT NULL,
	id VARCHAR(36) NOT NULL,
	cluster_id VARCHAR(36) NOT NULL,
	infra_env_id VARCHAR(36) NOT NULL,
	role VARCHAR(32) DEFAULT 'master' NOT NULL,
	is_bootstrap BOOLEAN DEFAULT '0' NOT NULL,
	is_single_node BOOLEAN DEFAULT '0' NOT NULL,
	status VARCHAR(64) DEFAULT 'installing-in-progress' NOT NULL,
	stage VARCHAR(64) DEFAULT 'Rebooting' NOT NULL,
	info TEXT DEFAULT '' NOT NULL,
	stage_started_at DOUBLE NOT NULL,
	stage_updated_at DOUBLE NOT NULL,
	logs_state VARCHAR(16) DEFAULT '' NOT NULL, status_info TEXT DEFAULT '' NOT NULL, checked_in_at DOUBLE,
	CONSTRAINT pk_installations PRIMARY KEY (host_id),
	CONSTRAINT fk_installations_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE,
	CONSTRAINT uq_installations_id UNIQUE (id)
);
CREATE TABLE mutes (
	id INTEGER NOT NULL,
	kind VARCHAR(16) NOT NULL,
	scope VARCHAR(16) NOT NULL,
	subject VARCHAR(255) NOT NULL,
	until DOUBLE NOT NULL,
	"by" VARCHAR(255) NOT NULL,
	note VARCHAR(255) DEFAULT '' NOT NULL,
	made_at DOUBLE NOT NULL,
	CONSTRAINT pk_mutes PRIMARY KEY (id)
);
CREATE TABLE notices (
	id INTEGER NOT NULL,
	host_id INTEGER NOT NULL,
	build INTEGER NOT NULL,
	verdict VARCHAR(16) NOT NULL,
	"before" VARCHAR(16) NOT NULL,
	reason TEXT NOT NULL,
	at DOUBLE NOT NULL,
	delivered_at DOUBLE,
	tries INTEGER DEFAULT '0' NOT NULL,
	next_at DOUBLE, digest INTEGER,
	CONSTRAINT pk_notices PRIMARY KEY (id),
	CONSTRAINT fk_notices_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE
);
CREATE TABLE sessions (
	hash VARCHAR(64) NOT NULL,
	token_id INTEGER NOT NULL,
	expires_at DOUBLE NOT NULL,
	CONSTRAINT pk_sessions PRIMARY KEY (hash),
	CONSTRAINT fk_sessions_token_id FOREIGN KEY(token_id) REFERENCES tokens (id) ON DELETE CASCADE
);
CREATE TABLE steps (
	id INTEGER NOT NULL,
	host_id INTEGER NOT NULL,
	build INTEGER NOT NULL,
	label VARCHAR(255) NOT NULL,
	name VARCHAR(255) NOT NULL,
	status VARCHAR(16) NOT NULL,
	priority INTEGER DEFAULT '0' NOT NULL,
	percentage DOUBLE,
	action VARCHAR(255) DEFAULT '' NOT NULL,
	logs TEXT DEFAULT '' NOT NULL,
	notes TEXT DEFAULT '' NOT NULL,
	boot_id VARCHAR(64) DEFAULT '' NOT NULL,
	host_time DOUBLE,
	received_at DOUBLE NOT NULL,
	is_known BOOLEAN DEFAULT '1' NOT NULL,
	CONSTRAINT pk_steps PRIMARY KEY (id),
	CONSTRAINT fk_steps_host_id FOREIGN KEY(host_id) REFERENCES hosts (id) ON DELETE CASCADE
);
CREATE TABLE tokens (
	id INTEGER NOT NULL,
	kind VARCHAR(16) NOT NULL,
	scope VARCHAR(255) DEFAULT '' NOT NULL,
	name VARCHAR(255) DEFAULT '' NOT NULL,
	hash VARCHAR(64) NOT NULL,
	created_at DOUBLE NOT NULL,
	created_by VARCHAR(255) NOT NULL,
	expires_at DOUBLE,
	revoked_at DOUBLE,
	used_at DOUBLE,
	CONSTRAINT pk_tokens PRIMARY KEY (id)
);
CREATE INDEX ix_hosts_due_at ON hosts (due_at);
CREATE INDEX ix_hosts_group ON hosts ("group");
CREATE INDEX ix_bundles_host_id ON bundles (host_id);
CREATE INDEX ix_durations_host_id ON durations (host_id);
CREATE INDEX ix_durations_label_ended_at ON durations (label, ended_at);
CREATE INDEX ix_events_host_id ON events (host_id);
CREATE INDEX ix_installations_cluster_id ON installations (cluster_id);
CREATE INDEX ix_notices_next_at ON notices (next_at);
CREATE INDEX ix_steps_host_id_build_id ON steps (host_id, build, id);
CREATE INDEX ix_cluster_events_cluster_id ON cluster_events (cluster_id);
CREATE INDEX ix_hosts_verdict_name ON hosts (verdict, name);
CREATE INDEX ix_analyses_bundle_id ON analyses (bundle_id);
CREATE INDEX ix_hosts_cause ON hosts (cause);
COMMIT;
