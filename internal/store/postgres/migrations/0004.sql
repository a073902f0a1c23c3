-- What was changed last, by kind, for processes that keep it in memory. A transaction writes the rows of its slot (see
-- writers), which no other one writes at the same time: writers do not wait for one another here.
create table ravenbot.changes (
    kind text collate "C" not null,
    slot bigint not null,
    process bigint not null,
    n bigint not null,
    at timestamptz not null default now(),
    primary key (kind, slot)
);
