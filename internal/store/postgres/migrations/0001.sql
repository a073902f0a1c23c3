-- Names and keys are compared byte by byte, whatever the language of the database is.
-- v is the version of a record, which is JSON: json and not jsonb, since that changes the bytes of a
-- record and refuses \u0000.

-- Which transaction a connection committed last, so that the outcome of one can be found out when the
-- connection was lost meanwhile. A transaction that was given up is fenced: it can commit no more.
create table ravenbot.writers (
    id bigint primary key,
    last bigint not null,
    fenced bigint not null default 0,
    at timestamptz not null default now(),
    check (last <> fenced)
);

-- Messages: record while they wait, done once they have an outcome.
create sequence ravenbot.inbox_seq;
create table ravenbot.inbox (
    key text collate "C" primary key,
    seq bigint not null,
    v smallint not null,
    record json,
    done json,
    done_at timestamptz
);
create index on ravenbot.inbox (seq) where record is not null;
create index on ravenbot.inbox (done_at) where done_at is not null;

-- Posts: record while they wait or were given up, done once it is known where they are.
create sequence ravenbot.post_seq;
create table ravenbot.posts (
    key text collate "C" primary key,
    seq bigint not null,
    v smallint not null,
    record json,
    failed boolean not null,
    address text collate "C",
    at timestamptz,
    done json,
    done_at timestamptz
);
create index on ravenbot.posts (seq) where record is not null;
create index on ravenbot.posts (done_at) where done_at is not null;
create index on ravenbot.posts (address, at) where failed;

create table ravenbot.streams (
    key text collate "C" primary key,
    v smallint not null,
    record json not null,
    at timestamptz not null
);

create index on ravenbot.streams (at);

create table ravenbot.last_seen (
    address text collate "C" primary key,
    platform text collate "C" not null,
    v smallint not null,
    record json not null,
    at timestamptz not null
);
create index on ravenbot.last_seen (platform, at);

-- What is kept of a conversation hangs on its id and not on its address, so that it is out of sight at
-- once when the conversation is deleted. last_turn is null where it has no turns and never had, messages
-- likewise. message_version changes with every message outside of turns.
create table ravenbot.conversations (
    id bigint primary key,
    address text collate "C" not null unique,
    channel text collate "C" not null,
    last_turn bigint,
    turns bigint not null default 0,
    messages bigint,
    message_version bigint not null default 0
);
create index on ravenbot.conversations (channel);

create table ravenbot.deleted_conversations (
    id bigint primary key,
    address text collate "C" not null
);

create table ravenbot.turns (
    conversation bigint not null,
    seq bigint not null,
    v smallint not null,
    record json not null,
    began timestamptz not null,
    hash bigint not null,
    primary key (conversation, seq)
);

-- Which turn holds a message, and which turns quote one. n keeps the order in which they were stored.
create table ravenbot.message_turns (
    subject text collate "C" primary key,
    conversation bigint not null,
    seq bigint not null
);
create index on ravenbot.message_turns (conversation, seq);
create table ravenbot.quotes (
    subject text collate "C" not null,
    n bigint not null,
    conversation bigint not null,
    seq bigint not null,
    primary key (subject, conversation, seq)
);
create index on ravenbot.quotes (conversation, seq);

create table ravenbot.summaries (
    address text collate "C" primary key,
    v smallint not null,
    record json not null
);

create table ravenbot.messages (
    conversation bigint not null,
    at text collate "C" not null,
    id text collate "C" not null,
    platform text collate "C" not null,
    v smallint not null,
    record json not null,
    primary key (conversation, at, id),
    unique (conversation, id)
);
create index on ravenbot.messages (id, platform);

create sequence ravenbot.call_seq;
create table ravenbot.calls (
    seq bigint primary key,
    v smallint not null,
    record json not null,
    address text collate "C" not null,
    at timestamptz not null
);
create index on ravenbot.calls (at);
create index on ravenbot.calls (address, at);

create table ravenbot.results (
    id text collate "C" primary key,
    v smallint not null,
    record json not null,
    address text collate "C" not null,
    at timestamptz not null
);

create table ravenbot.approvals (
    turn text collate "C" not null,
    call text collate "C" not null,
    v smallint not null,
    record json not null,
    address text collate "C" not null,
    at timestamptz not null,
    primary key (turn, call)
);
create index on ravenbot.approvals (at);
create index on ravenbot.approvals (address, at);

create table ravenbot.feedback (
    turn text collate "C" not null,
    user_id text collate "C" not null,
    v smallint not null,
    record json not null,
    withdrawn boolean not null,
    at timestamptz not null,
    primary key (turn, user_id)
);
create index on ravenbot.feedback (at);

create table ravenbot.shown_turns (
    platform text collate "C" not null,
    message text collate "C" not null,
    address text collate "C" not null,
    v smallint not null,
    record json not null,
    at timestamptz not null,
    primary key (platform, message, address)
);
create index on ravenbot.shown_turns (at);
create index on ravenbot.shown_turns (address, at);

create table ravenbot.feeds (
    url text collate "C" primary key,
    v smallint not null,
    record json not null
);

-- The digests that have seen any item, perhaps none that is still remembered.
create table ravenbot.digests (name text collate "C" primary key);
-- whole is the id of an item that is too long for a key.
create table ravenbot.seen_items (
    digest text collate "C" not null,
    item text collate "C" not null,
    v smallint not null,
    record json not null,
    at timestamptz not null,
    whole text,
    primary key (digest, item)
);
create index on ravenbot.seen_items (at);
create table ravenbot.runs (
    digest text collate "C" not null,
    due text collate "C" not null,
    v smallint not null,
    record json not null,
    primary key (digest, due)
);
create table ravenbot.subscriptions (
    address text collate "C" not null,
    url text collate "C" not null,
    v smallint not null,
    record json not null,
    primary key (address, url)
);

-- Web rooms: the number of the last line and of the last file; null where there never was one.
create table ravenbot.rooms (
    name text collate "C" primary key,
    last_entry bigint,
    last_file bigint
);
create table ravenbot.entries (
    room text collate "C" not null,
    seq bigint not null,
    id text collate "C" not null,
    v smallint not null,
    record json not null,
    at timestamptz not null,
    primary key (room, seq),
    unique (room, id)
);
create table ravenbot.room_files (
    room text collate "C" not null,
    n bigint not null,
    v smallint not null,
    record json not null,
    data bytea not null,
    at timestamptz not null,
    primary key (room, n)
);

create table ravenbot.memory_scopes (
    scope text collate "C" primary key,
    last bigint not null
);
create table ravenbot.memories (
    scope text collate "C" not null,
    n bigint not null,
    v smallint not null,
    record json not null,
    primary key (scope, n)
);

create table ravenbot.usage (
    day text collate "C" not null,
    model text collate "C" not null,
    channel text collate "C" not null,
    user_id text collate "C" not null,
    turns bigint not null,
    input bigint not null,
    cached bigint not null,
    output bigint not null,
    primary key (day, model, channel, user_id)
);

create table ravenbot.settings (
    scope text collate "C" primary key,
    v smallint not null,
    record json not null
);
create table ravenbot.blobs (
    key text collate "C" primary key,
    v smallint not null,
    record json not null
);
create table ravenbot.items (
    kind text collate "C" not null,
    name text collate "C" not null,
    v smallint not null,
    record json not null,
    primary key (kind, name)
);
