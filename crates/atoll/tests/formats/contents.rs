//! What a fixture is made of, and what is asked of it.

/// Everything that lies on disk in a way of its own: types, nulls, long values, keys of all kinds, a
/// sequence, another schema, an index that came later, rows that were changed and deleted.
pub const BEFORE_THE_CHECKPOINT: &str = "
    create table kinds (id int primary key, small smallint, big int8, amount numeric(12, 2),
        ratio float8, word varchar(20), note text, yes bool, at timestamp, day date, raw bytea, key uuid);
    create table empty (v text);
    create table many (id int8 primary key, v text);
    create schema side;
    create table side.counted (id serial primary key, v text not null default 'x');
    insert into kinds select g, g % 7 - 3, g * 10000000000, g * 1.25, g / 8.0, 'word ' || g % 11, md5(g::text),
        g % 3 = 0, timestamp '2026-11-24 10:00:00' + g * interval '1 hour', date '2026-11-24' - g,
        decode(md5(g::text), 'hex'), md5(g::text)::uuid from generate_series(1, 50) g;
    insert into kinds (id) values (0), (-1);
    insert into kinds (id, note) select 100 + g, (select string_agg(md5((g * 1000 + j)::text), '')
        from generate_series(1, 320) j) from generate_series(1, 3) g;
    insert into many select g, md5(g::text) from generate_series(1, 400) g;
    insert into side.counted (v) values ('a'), ('b'), ('c');
    create index by_word on kinds (word, day desc);
    create unique index by_key on kinds (key);
    delete from many where id % 10 = 3;
    update kinds set small = 77, note = null where id between 10 and 12;";

/// What only the log has: a transaction each.
pub const BEHIND_IT: [&str; 7] = [
    "insert into side.counted (v) values ('d')",
    "delete from side.counted where v = 'b'",
    "update kinds set word = 'other', note = repeat('long ', 5000) where id = 101",
    "delete from kinds where id = 102",
    "create table later (id int primary key); insert into later select g from generate_series(1, 5) g",
    "begin; insert into later values (6); rollback",
    "drop table empty",
];

/// What is asked of it.
pub const QUESTIONS: [&str; 8] = [
    "select id, small, big, amount, ratio, word, md5(note), yes, at, day, raw, key from kinds order by id",
    "select id, length(note), md5(note) from kinds where length(note) > 1000 order by id",
    "select count(*), sum(id), md5(string_agg(v, ' ')) from many where id > 10",
    "select id, v from side.counted order by id",
    "select id from kinds where word = 'word 4' and day > '2026-11-01' order by id",
    "select id from kinds where key = md5('7')::uuid",
    "select tablename from pg_tables where schemaname in ('public', 'side') order by tablename",
    "select indexname from pg_indexes where schemaname in ('public', 'side') order by indexname",
];
