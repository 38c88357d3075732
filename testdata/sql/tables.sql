-- Tables of the comparison with PostgreSQL: one with every type, and small ones to join.
CREATE TABLE r (
    a integer PRIMARY KEY,
    b integer NOT NULL,
    c integer,
    t text
);
CREATE INDEX r_b_c ON r (b, c);

CREATE TABLE s (
    a integer NOT NULL,
    b integer NOT NULL,
    c integer,
    d bigint,
    PRIMARY KEY (a, b)
);
CREATE INDEX s_c ON s (c DESC NULLS LAST, b);

CREATE TABLE u (
    a smallint,
    b integer,
    c bigint
);

CREATE TABLE typed (
    id integer PRIMARY KEY,
    flag boolean,
    small smallint,
    whole integer,
    large bigint,
    money numeric(12,2),
    exact numeric,
    single real,
    double double precision,
    words text,
    name varchar(20),
    code char(5),
    day date,
    moment timestamp,
    instant timestamptz,
    span interval,
    ident uuid,
    bytes bytea,
    doc jsonb,
    numbers integer[],
    labels text[]
);
CREATE INDEX typed_name ON typed (name);
CREATE INDEX typed_code ON typed (code, day);
CREATE UNIQUE INDEX typed_small ON typed (small);
CREATE INDEX typed_exact ON typed (exact);
