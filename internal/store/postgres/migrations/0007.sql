-- Every kind of record becomes a collection: a table with a group, a key, the record, and a number that changes with the
-- record. Further collections are created when they are declared, so that they need no migration.

create table ravenbot.collections (
    name text primary key,
    has_at boolean not null default false,   -- the table has the column at, by which its records grow old
    has_owner boolean not null default false -- the table has the column owner
);

-- The last number that was given in a group.
create table ravenbot.numbers (
    collection text collate "C" not null,
    grp bytea not null,
    last bigint not null,
    primary key (collection, grp)
);

create table ravenbot.c_done (grp bytea, key bytea, value bytea not null, sum bigint not null, primary key (grp, key));
create table ravenbot.c_inbox (like ravenbot.c_done including all);
create table ravenbot.c_outbox (like ravenbot.c_done including all);
create table ravenbot.c_streams (like ravenbot.c_done including all);
create table ravenbot.c_heard (like ravenbot.c_done including all);
create table ravenbot.c_turns (like ravenbot.c_done including all);
create table ravenbot.c_messages (like ravenbot.c_done including all);
create table ravenbot.c_messageids (like ravenbot.c_done including all);
create table ravenbot.c_places (like ravenbot.c_done including all);
create table ravenbot.c_quotes (like ravenbot.c_done including all);
create table ravenbot.c_summaries (like ravenbot.c_done including all);
create table ravenbot.c_calls (like ravenbot.c_done including all);
create table ravenbot.c_results (like ravenbot.c_done including all);
create table ravenbot.c_approvals (like ravenbot.c_done including all);
create table ravenbot.c_feedback (like ravenbot.c_done including all);
create table ravenbot.c_shown (like ravenbot.c_done including all);
create table ravenbot.c_feeds (like ravenbot.c_done including all);
create table ravenbot.c_seen (like ravenbot.c_done including all);
create table ravenbot.c_runs (like ravenbot.c_done including all);
create table ravenbot.c_subscriptions (like ravenbot.c_done including all);
create table ravenbot.c_rooms (like ravenbot.c_done including all);
create table ravenbot.c_entries (like ravenbot.c_done including all);
create table ravenbot.c_roomfiles (like ravenbot.c_done including all);
create table ravenbot.c_filedata (like ravenbot.c_done including all);
create table ravenbot.c_memories (like ravenbot.c_done including all);
create table ravenbot.c_usage (like ravenbot.c_done including all);
create table ravenbot.c_settings (like ravenbot.c_done including all);
create table ravenbot.c_tools (like ravenbot.c_done including all);
create table ravenbot.c_items (like ravenbot.c_done including all);

alter table ravenbot.c_inbox add column owner bigint not null default 0;
create index on ravenbot.c_inbox (owner);
alter table ravenbot.c_outbox add column owner bigint not null default 0;
create index on ravenbot.c_outbox (owner);

insert into ravenbot.collections (name, has_owner)
    select substr(relname, 3), relname in ('c_inbox', 'c_outbox') from pg_class
    where relnamespace = 'ravenbot'::regnamespace and relkind = 'r' and relname like E'c\\_%';

-- Collections without groups have a sequence.
create sequence ravenbot.c_streams_seq;
create sequence ravenbot.c_done_seq;
create sequence ravenbot.c_heard_seq;
create sequence ravenbot.c_messageids_seq;
create sequence ravenbot.c_places_seq;
create sequence ravenbot.c_quotes_seq;
create sequence ravenbot.c_summaries_seq;
create sequence ravenbot.c_results_seq;
create sequence ravenbot.c_approvals_seq;
create sequence ravenbot.c_feedback_seq;
create sequence ravenbot.c_shown_seq;
create sequence ravenbot.c_feeds_seq;
create sequence ravenbot.c_subscriptions_seq;
create sequence ravenbot.c_usage_seq;
create sequence ravenbot.c_settings_seq;
create sequence ravenbot.c_tools_seq;
alter sequence ravenbot.inbox_seq rename to c_inbox_seq;
alter sequence ravenbot.post_seq rename to c_outbox_seq;
alter sequence ravenbot.call_seq rename to c_calls_seq;

-- The functions below are dropped at the end.

-- A key as bytes. A key that is no text begins with U+0001 and is quoted as in Go.
create function ravenbot.unquote(form text) returns bytea language sql stable as $$
    select coalesce(string_agg(case
            when t[1] ~ E'^\\\\x' then decode(substr(t[1], 3), 'hex')
            when t[1] ~ E'^\\\\[uU]' then convert_to(chr(('x' || lpad(substr(t[1], 3), 8, '0'))::bit(32)::int), 'UTF8')
            when t[1] ~ E'^\\\\[abtnvfr]' then decode(lpad(to_hex(6 + strpos('abtnvfr', right(t[1], 1))), 2, '0'), 'hex')
            else convert_to(right(t[1], 1), 'UTF8')
        end, decode('', 'hex') order by n), decode('', 'hex'))
    from regexp_matches(substr(form, 3, length(form) - 3),
        E'\\\\x..|\\\\u....|\\\\U........|\\\\.|[^\\\\]', 'g') with ordinality m (t, n)
$$;
create function ravenbot.raw(form text) returns bytea language sql stable as $$
    select case when left(form, 1) = E'\x01' then ravenbot.unquote(form) else convert_to(form, 'UTF8') end
$$;

-- A key of two parts, with a NUL between them.
create function ravenbot.pair(a bytea, b bytea) returns bytea language sql immutable as $$
    select a || decode('00', 'hex') || b
$$;

-- A key that a feed chooses: the end of a long one is replaced by its hash. No character is cut in two.
create function ravenbot.cut(key bytea) returns bytea language sql stable as $$
    select case when length(key) <= 1000 then key else substring(key for case
            when get_byte(key, 936) not between 128 and 191 then 936
            when get_byte(key, 935) not between 128 and 191 then 935
            when get_byte(key, 934) not between 128 and 191 then 934
            else 933
        end) || convert_to(encode(sha256(key), 'hex'), 'UTF8') end
$$;

-- A part of a key as JSON. Bytes that are no text are replaced, as in every JSON.
create function ravenbot.json(part text, is_quoted boolean) returns text language sql immutable as $$
    select case when is_quoted then '"' || regexp_replace(regexp_replace(regexp_replace(regexp_replace(part,
            E'\\\\x([89a-f].)|\\\\U........', E'\\\\ufffd', 'g'), E'\\\\x(..)', E'\\\\u00\\1', 'g'),
            E'\\\\a', E'\\\\u0007', 'g'), E'\\\\v', E'\\\\u000b', 'g') || '"'
        else to_json(part)::text end
$$;
create function ravenbot.json(form text) returns text language sql immutable as $$
    select case when left(form, 1) = E'\x01' then ravenbot.json(substr(form, 3, length(form) - 3), true)
        else ravenbot.json(form, false) end
$$;

-- An address, PLATFORM:WORKSPACE/CHANNEL[/THREAD], as JSON.
create function ravenbot.address(form text) returns text language sql immutable as $$
    select '{"platform":' || ravenbot.json(split_part(a, ':', 1), q)
        || case when p[1] <> '' then ',"workspace":' || ravenbot.json(p[1], q) else '' end
        || ',"channel":' || ravenbot.json(p[2], q)
        || case when p[3] <> '' then ',"thread":' || ravenbot.json(p[3], q) else '' end || '}'
    from (select case when left(form, 1) = E'\x01' then substr(form, 3, length(form) - 3) else form end as a,
        left(form, 1) = E'\x01' as q) f,
        lateral (select string_to_array(substr(a, strpos(a, ':') + 1), '/') as p) parts
$$;

-- Conversations with what their address is as a group and as JSON.
create table ravenbot.groups as select id, ravenbot.raw(address) as grp, ravenbot.address(address) as json
    from ravenbot.conversations;

-- Records are text here, and their checksum is a hash of it. No process has seen them before.
insert into ravenbot.c_inbox
    select '', ravenbot.raw(key), convert_to(r, 'UTF8'), hashtextextended(r, 0), owner
    from (select *, '{"received":' || record || ',"seq":' || seq || '}' as r from ravenbot.inbox where record is not null) t;
insert into ravenbot.c_outbox
    select '', ravenbot.raw(key), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0), owner
    from ravenbot.posts where record is not null;
insert into ravenbot.c_done
    select '', convert_to(kind, 'UTF8') || ravenbot.raw(key), convert_to(r, 'UTF8'), hashtextextended(r, 0)
    from (
        select 'm/' as kind, key, done::text as r from ravenbot.inbox where done is not null
        union all
        select 'p/', key, done::text from ravenbot.posts where done is not null
    ) t;
insert into ravenbot.c_turns
    select c.grp, int8send(t.seq), convert_to(t.record::text, 'UTF8'), hashtextextended(t.record::text, 0)
    from ravenbot.turns t join ravenbot.groups c on c.id = t.conversation;
insert into ravenbot.c_messages
    select c.grp, convert_to(m.at, 'UTF8') || ravenbot.raw(m.id),
        convert_to(m.record::text, 'UTF8'), hashtextextended(m.record::text, 0)
    from ravenbot.messages m join ravenbot.groups c on c.id = m.conversation;
insert into ravenbot.c_messageids
    select '', key, convert_to(r, 'UTF8'), hashtextextended(r, 0)
    from (
        select ravenbot.pair(ravenbot.pair(ravenbot.raw(m.platform), ravenbot.raw(m.id)), c.grp) as key,
            '"' || replace(encode(convert_to(m.at, 'UTF8') || ravenbot.raw(m.id), 'base64'), E'\n', '') || '"' as r
        from ravenbot.messages m join ravenbot.groups c on c.id = m.conversation
    ) t;
insert into ravenbot.c_places
    select '', key, convert_to(r, 'UTF8'), hashtextextended(r, 0)
    from (
        select ravenbot.raw(m.subject) as key,
            '{"conversation":' || c.json || ',"seq":' || m.seq || '}' as r
        from ravenbot.message_turns m join ravenbot.groups c on c.id = m.conversation
    ) t;
insert into ravenbot.c_quotes
    select '', ravenbot.raw(subject), convert_to(r, 'UTF8'), hashtextextended(r, 0)
    from (
        select q.subject, '[' || string_agg('{"conversation":' || c.json || ',"seq":' || q.seq || '}', ','
            order by q.n, c.grp, q.seq) || ']' as r
        from ravenbot.quotes q join ravenbot.groups c on c.id = q.conversation group by q.subject
    ) t;
insert into ravenbot.c_entries
    select ravenbot.raw(room), ravenbot.raw(id), convert_to(seq::text, 'UTF8'), hashtextextended(seq::text, 0)
    from ravenbot.entries;
insert into ravenbot.c_roomfiles
    select ravenbot.raw(room), int8send(n), convert_to(r, 'UTF8'), hashtextextended(r, 0)
    from (
        -- The server cannot read every JSON, so that it is changed as text. Times of files were not always recorded.
        select room, n, case when record::text not like '{"at":%' then '{"at":"0001-01-01T00:00:00Z",' else '{' end
            || substr(btrim(record::text), 2, length(btrim(record::text)) - 2) || ',"bytes":' || length(data) || '}' as r
        from ravenbot.room_files
    ) t;
insert into ravenbot.c_filedata
    select ravenbot.raw(room), int8send(n) || int8send(i), substring(data from i::int * 262144 + 1 for 262144), i
    from ravenbot.room_files, generate_series(0, (length(data)::bigint - 1) / 262144) i where length(data) > 0;
insert into ravenbot.c_seen
    select ravenbot.raw(digest), ravenbot.cut(ravenbot.raw(coalesce(whole, item))),
        convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.seen_items;
insert into ravenbot.c_subscriptions
    select '', ravenbot.cut(ravenbot.raw(address) || convert_to(' ', 'UTF8') || case
            when octet_length(address) + octet_length(url) < 1000 or record::text like E'%\\u0000%' then ravenbot.raw(url)
            else convert_to(record ->> 'url', 'UTF8')
        end), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.subscriptions;
insert into ravenbot.c_usage
    select '', ravenbot.pair(
            ravenbot.pair(ravenbot.pair(ravenbot.raw(day), ravenbot.raw(model)), ravenbot.raw(channel)), ravenbot.raw(user_id)),
        convert_to(r, 'UTF8'), hashtextextended(r, 0)
    from (
        select day, model, user_id, coalesce(nullif(channel, ''), ':/') as channel,
            '{"day":' || ravenbot.json(day) || ',"model":' || ravenbot.json(model)
            || ',"channel":' || ravenbot.address(coalesce(nullif(channel, ''), ':/')) || ',"user":' || ravenbot.json(user_id)
            || ',"turns":' || turns || ',"tokens":{"input":' || input || ',"cached":' || cached || ',"output":' || output || '}}'
            as r
        from ravenbot.usage
    ) t;
insert into ravenbot.c_streams
    select '', ravenbot.raw(key), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0) from ravenbot.streams;
insert into ravenbot.c_heard
    select '', ravenbot.raw(address), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.last_seen;
insert into ravenbot.c_summaries
    select '', ravenbot.raw(address), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.summaries;
insert into ravenbot.c_calls
    select '', int8send(seq), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0) from ravenbot.calls;
insert into ravenbot.c_results
    select '', ravenbot.raw(id), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0) from ravenbot.results;
insert into ravenbot.c_approvals
    select '', ravenbot.pair(ravenbot.raw(turn), ravenbot.raw(call)),
        convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.approvals;
insert into ravenbot.c_feedback
    select '', ravenbot.pair(ravenbot.raw(turn), ravenbot.raw(user_id)),
        convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.feedback;
insert into ravenbot.c_shown
    select '', ravenbot.pair(ravenbot.pair(ravenbot.raw(platform), ravenbot.raw(message)), ravenbot.raw(address)),
        convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.shown_turns;
insert into ravenbot.c_feeds
    select '', ravenbot.raw(url), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0) from ravenbot.feeds;
insert into ravenbot.c_runs
    select ravenbot.raw(digest), ravenbot.raw(due), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.runs;
insert into ravenbot.c_rooms
    select ravenbot.raw(room), int8send(seq), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.entries;
insert into ravenbot.c_memories
    select ravenbot.raw(scope), int8send(n), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.memories;
insert into ravenbot.c_settings
    select '', ravenbot.raw(scope), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0) from ravenbot.settings;
insert into ravenbot.c_tools
    select '', ravenbot.raw(key), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0) from ravenbot.blobs;
insert into ravenbot.c_items
    select ravenbot.raw(kind), ravenbot.raw(name), convert_to(record::text, 'UTF8'), hashtextextended(record::text, 0)
    from ravenbot.items;

insert into ravenbot.numbers (collection, grp, last)
    select 'turns', ravenbot.raw(address), last_turn from ravenbot.conversations where last_turn > 0
    union all
    select 'rooms', ravenbot.raw(name), last_entry from ravenbot.rooms where last_entry > 0
    union all
    select 'roomfiles', ravenbot.raw(name), last_file from ravenbot.rooms where last_file > 0
    union all
    select 'memories', ravenbot.raw(scope), last from ravenbot.memory_scopes where last > 0
    union all
    select 'seen', ravenbot.raw(name), 1 from ravenbot.digests; -- a digest that has seen any item

drop function ravenbot.address(text);
drop function ravenbot.json(text);
drop function ravenbot.json(text, boolean);
drop function ravenbot.cut(bytea);
drop function ravenbot.pair(bytea, bytea);
drop function ravenbot.raw(text);
drop function ravenbot.unquote(text);
drop table ravenbot.groups, ravenbot.inbox, ravenbot.posts, ravenbot.streams, ravenbot.last_seen, ravenbot.conversations,
    ravenbot.deleted_conversations, ravenbot.turns, ravenbot.message_turns, ravenbot.quotes, ravenbot.summaries,
    ravenbot.messages, ravenbot.calls, ravenbot.results, ravenbot.approvals, ravenbot.feedback, ravenbot.shown_turns,
    ravenbot.feeds, ravenbot.digests, ravenbot.seen_items, ravenbot.runs, ravenbot.subscriptions, ravenbot.rooms,
    ravenbot.entries, ravenbot.room_files, ravenbot.memory_scopes, ravenbot.memories, ravenbot.usage, ravenbot.settings,
    ravenbot.blobs, ravenbot.items;
