-- How the shards of a bot are divided among replicas. Whoever changes anything of a bot locks its row here first.
create table ravenbot.shard_plans (
    bot text collate "C" primary key,
    shards int not null
);

-- Replicas that take part. Those without a row in the table replicas have ended.
create table ravenbot.shard_members (
    bot text collate "C" not null,
    owner bigint not null,
    primary key (bot, owner)
);

-- Shards that have, or had, an owner. session is what the last one has left.
create table ravenbot.shards (
    bot text collate "C" not null,
    shard int not null,
    owner bigint not null,
    session text,
    primary key (bot, shard)
);

-- Sessions that were begun, or are being begun, in the last day.
create table ravenbot.shard_identifies (
    id bigint generated always as identity primary key,
    bot text collate "C" not null,
    at timestamptz not null default clock_timestamp()
);

-- Until when nobody else may begin a session in a bucket. owner is who is beginning one; 0: nobody is. identify is the row
-- of the last one.
create table ravenbot.shard_buckets (
    bot text collate "C" not null,
    bucket int not null,
    owner bigint not null,
    identify bigint not null,
    until timestamptz not null,
    primary key (bot, bucket)
);
