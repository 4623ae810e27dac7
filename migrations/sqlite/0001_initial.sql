-- Accounting, first schema. All times are seconds since the epoch, NULL = not yet or not set; memory is MiB; limits of wall time are
-- minutes. TRES are text name=count in base units. Names that SQL reserves have a suffix (user_name, time_end).
-- The same tables exist for the other database; a change needs a new file in both folders.

CREATE TABLE clusters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    control_host TEXT NOT NULL DEFAULT '',
    control_port INTEGER NOT NULL DEFAULT 0,
    rpc_version INTEGER NOT NULL DEFAULT 0,
    tres TEXT NOT NULL DEFAULT '',
    node_list TEXT NOT NULL DEFAULT '',
    classification TEXT NOT NULL DEFAULT '',
    created INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    UNIQUE (name)
);

-- How far each journal of each cluster has been written. The row is changed in the same transaction as the records.
CREATE TABLE outbox (
    cluster_id INTEGER NOT NULL REFERENCES clusters (id),
    journal_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (cluster_id, journal_id)
);

CREATE TABLE tres (
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    deleted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (id),
    UNIQUE (kind, name)
);
INSERT INTO tres (id, kind, name) VALUES
    (1, 'cpu', ''), (2, 'mem', ''), (3, 'energy', ''), (4, 'node', ''),
    (5, 'billing', ''), (6, 'fs', 'disk'), (7, 'vmem', ''), (8, 'pages', '');

CREATE TABLE accounts (
    name TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    organization TEXT NOT NULL DEFAULT '',
    flags TEXT NOT NULL DEFAULT '',
    created INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name)
);

CREATE TABLE users (
    name TEXT NOT NULL,
    admin_level INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (name)
);

CREATE TABLE coordinators (
    account TEXT NOT NULL,
    user_name TEXT NOT NULL,
    PRIMARY KEY (account, user_name)
);

-- user_name and partition_name are '' for "none", so that the key has no NULL in it. shares NULL = parent.
CREATE TABLE associations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    cluster_id INTEGER NOT NULL REFERENCES clusters (id),
    account TEXT NOT NULL,
    user_name TEXT NOT NULL DEFAULT '',
    partition_name TEXT NOT NULL DEFAULT '',
    parent_account TEXT NOT NULL DEFAULT '',
    shares INTEGER,
    priority INTEGER,
    qos TEXT,
    qos_delta TEXT NOT NULL DEFAULT '',
    default_qos TEXT NOT NULL DEFAULT '',
    is_default INTEGER NOT NULL DEFAULT 0,
    grp_jobs INTEGER,
    grp_jobs_accrue INTEGER,
    grp_submit_jobs INTEGER,
    grp_tres TEXT NOT NULL DEFAULT '',
    grp_tres_mins TEXT NOT NULL DEFAULT '',
    grp_tres_run_mins TEXT NOT NULL DEFAULT '',
    grp_wall INTEGER,
    max_jobs INTEGER,
    max_jobs_accrue INTEGER,
    max_submit_jobs INTEGER,
    max_tres_per_job TEXT NOT NULL DEFAULT '',
    max_tres_per_node TEXT NOT NULL DEFAULT '',
    max_tres_mins_per_job TEXT NOT NULL DEFAULT '',
    max_tres_run_mins TEXT NOT NULL DEFAULT '',
    max_wall_per_job INTEGER,
    min_prio_threshold INTEGER,
    comment TEXT NOT NULL DEFAULT '',
    created INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    UNIQUE (cluster_id, account, user_name, partition_name)
);
CREATE INDEX associations_user ON associations (user_name);

CREATE TABLE qos (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    flags TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    grace_time_secs INTEGER NOT NULL DEFAULT 0,
    preempt TEXT NOT NULL DEFAULT '',
    preempt_mode TEXT NOT NULL DEFAULT '',
    preempt_exempt_time_secs INTEGER,
    usage_factor REAL NOT NULL DEFAULT 1.0,
    usage_threshold REAL,
    limit_factor REAL,
    grp_jobs INTEGER,
    grp_jobs_accrue INTEGER,
    grp_submit_jobs INTEGER,
    grp_tres TEXT NOT NULL DEFAULT '',
    grp_tres_mins TEXT NOT NULL DEFAULT '',
    grp_tres_run_mins TEXT NOT NULL DEFAULT '',
    grp_wall INTEGER,
    max_jobs_per_account INTEGER,
    max_jobs_per_user INTEGER,
    max_jobs_accrue_per_account INTEGER,
    max_jobs_accrue_per_user INTEGER,
    max_submit_jobs_per_account INTEGER,
    max_submit_jobs_per_user INTEGER,
    max_tres_per_job TEXT NOT NULL DEFAULT '',
    max_tres_per_node TEXT NOT NULL DEFAULT '',
    max_tres_per_account TEXT NOT NULL DEFAULT '',
    max_tres_per_user TEXT NOT NULL DEFAULT '',
    max_tres_mins_per_job TEXT NOT NULL DEFAULT '',
    max_tres_run_mins_per_account TEXT NOT NULL DEFAULT '',
    max_tres_run_mins_per_user TEXT NOT NULL DEFAULT '',
    max_wall_per_job INTEGER,
    min_tres_per_job TEXT NOT NULL DEFAULT '',
    min_prio_threshold INTEGER,
    created INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    UNIQUE (name)
);
INSERT INTO qos (id, name, description) VALUES (1, 'normal', 'Normal QOS default');

-- Batch scripts and environments, once per distinct text.
CREATE TABLE job_texts (
    cluster_id INTEGER NOT NULL,
    hash TEXT NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (cluster_id, hash)
);

-- One row a run. The window questions of sacct ask what was not over at a time. A run that has not ended counts as over in the far
-- future, so that this is one range of one index; queries must use the same expression.
CREATE TABLE jobs (
    cluster_id INTEGER NOT NULL REFERENCES clusters (id),
    job_id INTEGER NOT NULL,
    submit INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    array_job_id INTEGER,
    array_task_id INTEGER,
    array_task_string TEXT NOT NULL DEFAULT '',
    het_job_id INTEGER,
    het_job_offset INTEGER,
    association_id INTEGER,
    account TEXT NOT NULL DEFAULT '',
    user_name TEXT NOT NULL DEFAULT '',
    uid INTEGER NOT NULL DEFAULT 0,
    gid INTEGER NOT NULL DEFAULT 0,
    group_name TEXT NOT NULL DEFAULT '',
    partition_name TEXT NOT NULL DEFAULT '',
    qos TEXT NOT NULL DEFAULT '',
    qos_requested TEXT NOT NULL DEFAULT '',
    wckey TEXT NOT NULL DEFAULT '',
    job_name TEXT NOT NULL DEFAULT '',
    eligible INTEGER,
    time_start INTEGER,
    time_end INTEGER,
    suspended_secs INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0,
    state_flags INTEGER NOT NULL DEFAULT 0,
    exit_status INTEGER NOT NULL DEFAULT 0,
    derived_exit_status INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    req_tres TEXT NOT NULL DEFAULT '',
    alloc_tres TEXT NOT NULL DEFAULT '',
    req_cpus INTEGER NOT NULL DEFAULT 0,
    req_mem_mib INTEGER NOT NULL DEFAULT 0,
    req_nodes INTEGER NOT NULL DEFAULT 0,
    alloc_cpus INTEGER NOT NULL DEFAULT 0,
    alloc_nodes INTEGER NOT NULL DEFAULT 0,
    node_list TEXT NOT NULL DEFAULT '',
    constraints TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    time_limit_minutes INTEGER,
    reservation TEXT NOT NULL DEFAULT '',
    reservation_requested TEXT NOT NULL DEFAULT '',
    licenses TEXT NOT NULL DEFAULT '',
    work_dir TEXT NOT NULL DEFAULT '',
    submit_line TEXT NOT NULL DEFAULT '',
    std_in TEXT NOT NULL DEFAULT '',
    std_out TEXT NOT NULL DEFAULT '',
    std_err TEXT NOT NULL DEFAULT '',
    comment TEXT NOT NULL DEFAULT '',
    admin_comment TEXT NOT NULL DEFAULT '',
    system_comment TEXT NOT NULL DEFAULT '',
    extra TEXT NOT NULL DEFAULT '',
    container TEXT NOT NULL DEFAULT '',
    mcs_label TEXT NOT NULL DEFAULT '',
    exclusive TEXT NOT NULL DEFAULT '',
    flags INTEGER NOT NULL DEFAULT 0,
    kill_requester INTEGER,
    failed_node TEXT NOT NULL DEFAULT '',
    script_hash TEXT,
    environment_hash TEXT,
    PRIMARY KEY (cluster_id, job_id, submit, attempt)
);
CREATE INDEX jobs_array ON jobs (cluster_id, array_job_id) WHERE array_job_id IS NOT NULL;
CREATE INDEX jobs_het ON jobs (cluster_id, het_job_id) WHERE het_job_id IS NOT NULL;
CREATE INDEX jobs_over ON jobs (cluster_id, COALESCE(time_end, 9223372036854775807));
CREATE INDEX jobs_user_over ON jobs (cluster_id, user_name, COALESCE(time_end, 9223372036854775807));
CREATE INDEX jobs_account_over ON jobs (cluster_id, account, COALESCE(time_end, 9223372036854775807));

-- step_id is signed: batch -5, extern -4, interactive -6, so that the special steps sort first. usage is JSON: microseconds of CPU, and the extremes of each quantity over the tasks.
CREATE TABLE steps (
    cluster_id INTEGER NOT NULL REFERENCES clusters (id),
    job_id INTEGER NOT NULL,
    job_submit INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    step_id INTEGER NOT NULL,
    step_name TEXT NOT NULL DEFAULT '',
    tasks INTEGER NOT NULL DEFAULT 0,
    nodes INTEGER NOT NULL DEFAULT 0,
    node_list TEXT NOT NULL DEFAULT '',
    layout TEXT NOT NULL DEFAULT '',
    time_start INTEGER NOT NULL,
    time_end INTEGER,
    suspended_secs INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0,
    exit_status INTEGER NOT NULL DEFAULT 0,
    cpus INTEGER NOT NULL DEFAULT 0,
    alloc_tres TEXT NOT NULL DEFAULT '',
    kill_requester INTEGER,
    submit_line TEXT NOT NULL DEFAULT '',
    container TEXT NOT NULL DEFAULT '',
    std_in TEXT NOT NULL DEFAULT '',
    std_out TEXT NOT NULL DEFAULT '',
    std_err TEXT NOT NULL DEFAULT '',
    time_limit_minutes INTEGER,
    usage TEXT NOT NULL,
    PRIMARY KEY (cluster_id, job_id, job_submit, attempt, step_id)
);

CREATE TABLE node_events (
    cluster_id INTEGER NOT NULL REFERENCES clusters (id),
    node TEXT NOT NULL DEFAULT '',
    time_start INTEGER NOT NULL,
    time_end INTEGER,
    state TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    user_name TEXT NOT NULL DEFAULT '',
    tres TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (cluster_id, node, time_start)
);
CREATE INDEX node_events_end ON node_events (cluster_id, time_end);

-- Who changed what through sacctmgr.
CREATE TABLE transactions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time_at INTEGER NOT NULL,
    action TEXT NOT NULL,
    actor TEXT NOT NULL,
    cluster TEXT NOT NULL DEFAULT '',
    condition TEXT NOT NULL DEFAULT '',
    info TEXT NOT NULL DEFAULT ''
);
CREATE INDEX transactions_time ON transactions (time_at);
