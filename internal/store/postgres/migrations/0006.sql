-- What a replica tells the others, by topic.
alter table ravenbot.replicas add column told jsonb not null default '{}';
