-- The processes that share the database. One that does not renew expires_at is over when another one has
-- deleted its row; -infinity: it has left. alone: no other may join meanwhile.
create table ravenbot.replicas (
    id bigint generated always as identity primary key,
    name text not null,
    address text not null,
    alone boolean not null default false,
    expires_at timestamptz not null
);

-- Which process acts on what: channels, and what one alone does.
create table ravenbot.claims (
    key text collate "C" primary key,
    owner bigint not null
);
create index on ravenbot.claims (owner);

-- Who answers a message, and sends a post; 0: nobody yet.
alter table ravenbot.inbox add column owner bigint not null default 0;
create index on ravenbot.inbox (owner, seq) where record is not null;
drop index ravenbot.inbox_seq_idx;
alter table ravenbot.posts add column owner bigint not null default 0;
create index on ravenbot.posts (owner, seq) where record is not null;
drop index ravenbot.posts_seq_idx;

-- A process of the version before may still be sending: what it has left waits until its time is over.
insert into ravenbot.replicas (name, address, expires_at)
    select holder, address, expires_at from ravenbot.lease where expires_at > clock_timestamp();
update ravenbot.inbox set owner = (select id from ravenbot.replicas)
    where record is not null and exists (select from ravenbot.replicas);
update ravenbot.posts set owner = (select id from ravenbot.replicas)
    where record is not null and exists (select from ravenbot.replicas);
drop table ravenbot.lease;
