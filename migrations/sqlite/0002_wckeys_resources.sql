-- Workload keys, and resources that clusters share. Units and conventions as in the first file.
-- The same tables exist for the other database; a change needs a new file in both folders.

CREATE TABLE wckeys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    cluster_id INTEGER NOT NULL REFERENCES clusters (id),
    name TEXT NOT NULL,
    user_name TEXT NOT NULL,
    is_default INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    UNIQUE (cluster_id, name, user_name)
);

CREATE TABLE resources (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    server TEXT NOT NULL,
    description TEXT NOT NULL DEFAULT '',
    server_type TEXT NOT NULL DEFAULT '',
    kind TEXT NOT NULL DEFAULT 'License',
    count INTEGER NOT NULL DEFAULT 0,
    last_consumed INTEGER NOT NULL DEFAULT 0,
    flags TEXT NOT NULL DEFAULT '',
    created INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    UNIQUE (name, server)
);

-- What of a resource a cluster may use: percent, or a count when the resource has the flag Absolute.
CREATE TABLE resource_clusters (
    resource_id INTEGER NOT NULL REFERENCES resources (id),
    cluster TEXT NOT NULL,
    allowed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (resource_id, cluster)
);

CREATE INDEX jobs_open ON jobs (cluster_id, job_id) WHERE time_end IS NULL;
