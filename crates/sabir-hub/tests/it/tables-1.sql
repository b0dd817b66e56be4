CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    writer TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    start INTEGER NOT NULL,
    last INTEGER NOT NULL,
    orders INTEGER NOT NULL DEFAULT 0,
    shell TEXT,
    takes TEXT NOT NULL DEFAULT '[]',
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    folded INTEGER NOT NULL DEFAULT 0,
    agent TEXT,
    phase TEXT NOT NULL DEFAULT 'starting',
    workspace TEXT,
    overview TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX session_agent ON session (agent);
CREATE INDEX session_behind ON session (id) WHERE folded < last;
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    line BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX message_seq ON message (session, seq);
CREATE TABLE placed (
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    placed TEXT NOT NULL,
    open INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT;
CREATE TABLE artifact (
    session INTEGER NOT NULL,
    digest TEXT NOT NULL,
    artifact TEXT NOT NULL,
    PRIMARY KEY (session, digest)
) STRICT;
CREATE TABLE token (
    id TEXT PRIMARY KEY,
    token TEXT NOT NULL
) STRICT;
