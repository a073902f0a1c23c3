-- Which process may write, where several share the database. One row; epoch counts the holders.
create table ravenbot.lease (
    one boolean primary key default true check (one),
    epoch bigint not null,
    holder text not null,
    address text not null,
    expires_at timestamptz not null
);
insert into ravenbot.lease (epoch, holder, address, expires_at) values (0, '', '', '-infinity');
