-- INSERT, UPDATE and DELETE as clients send them, one after the other.
CREATE TABLE account (
    id integer PRIMARY KEY,
    owner text NOT NULL,
    kind varchar(10) DEFAULT 'plain',
    balance numeric(12,2) NOT NULL DEFAULT 0 CHECK (balance >= -1000),
    opened date DEFAULT '2024-01-01',
    email text,
    flags integer NOT NULL DEFAULT 1 + 1
);
CREATE TABLE entry (
    account integer NOT NULL,
    number integer NOT NULL,
    amount numeric(12,2) NOT NULL,
    at timestamp,
    words text[],
    doc jsonb,
    PRIMARY KEY (account, number)
);
CREATE TABLE rate (kind varchar(10) PRIMARY KEY, percent numeric(5,2) NOT NULL);
CREATE TABLE counter (id integer PRIMARY KEY, hits bigint NOT NULL DEFAULT 0, seen text);
COMMENT ON TABLE entry IS 'weir: partition by (account)';
COMMENT ON TABLE account IS 'weir: partition by (id)';
COMMENT ON TABLE counter IS 'weir: partition by (id)';
-- rows
INSERT INTO account VALUES (1, 'Ann', 'gold', 100, '2020-01-01', 'ann@x'), (2, 'Bob', 'plain', 50, '2021-01-01', NULL),
    (3, 'Cid', 'gold', 0, '2022-02-02', 'cid@x');
INSERT INTO entry VALUES (1, 1, 60, '2024-01-01', '{a}', '{"n": 1}'), (1, 2, 40, '2024-01-02', NULL, NULL), (2, 1, 50, NULL, '{}', '[]');
INSERT INTO rate VALUES ('gold', 2.5), ('plain', 1);
INSERT INTO counter VALUES (1, 10, 'x'), (2, 20, NULL);

-- cases
-- INSERT
INSERT INTO account (id, owner) VALUES (10, 'Dora');
SELECT * FROM account WHERE id = 10;
INSERT INTO account VALUES (11, 'Eve');
INSERT INTO account VALUES (12, 'Fay', DEFAULT, 5, DEFAULT, 'fay@x', DEFAULT) RETURNING *;
INSERT INTO account (id, owner, balance) VALUES (13, 'Gus', 1.005), (14, 'Hal', 2.994) RETURNING id, balance;
INSERT INTO account (owner, id) VALUES ('Ida', 15) RETURNING id + 1 AS next, upper(owner), balance IS NULL AS none;
INSERT INTO account (id, owner, kind) VALUES (16, 'Jim', NULL) RETURNING kind;
INSERT INTO account (id, owner) VALUES (10, 'again');
INSERT INTO account (id, owner, email) VALUES (17, 'Kim', 'ann@x');
INSERT INTO account (id) VALUES (18);
INSERT INTO account (id, owner) VALUES (19, NULL);
INSERT INTO account (id, owner, balance) VALUES (20, 'Low', -2000);
INSERT INTO account (id, owner, kind) VALUES (21, 'Long', 'far too long a kind');
INSERT INTO account (id, owner, balance) VALUES (22, 'Much', 99999999999);
INSERT INTO account (id, owner) VALUES ('x', 'y');
INSERT INTO account (id, owner) VALUES (23);
INSERT INTO account (id, owner) VALUES (23, 'a', 'b');
INSERT INTO account (id, nothing) VALUES (23, 'a');
INSERT INTO account (id, id) VALUES (23, 23);
INSERT INTO nowhere VALUES (1);
INSERT INTO account (id, owner, opened) VALUES (24, 'Day', '2024-02-30');
INSERT INTO account (id, owner, opened) VALUES (24, 'Day', '2024-02-29'::date + 1) RETURNING opened;
INSERT INTO account (id, owner, balance) VALUES (25, 'Sum', (1 + 2) * 3.5) RETURNING balance;
INSERT INTO account (id, owner) VALUES (26, 'a' || 'b') RETURNING owner;
INSERT INTO entry (account, number, amount) VALUES (9, 1, 5), (9, 2, (SELECT count(*) FROM entry WHERE account = 9)), (9, 3, (SELECT count(*) FROM entry WHERE account = 9)) RETURNING amount;
DELETE FROM entry WHERE account = 9;
-- The element behind the end of an array is NULL, which names no shard.
UPDATE entry SET amount = 0 WHERE account = 2 AND number = 1 AND ('{4,4}'::integer[])[9] IN (SELECT a.id FROM account a WHERE a.id = entry.account);
DELETE FROM entry WHERE account = 5 AND number = 0 AND ('{4,4}'::integer[])[9] IN (SELECT a.id FROM account a WHERE a.id = entry.account);
DELETE FROM entry WHERE account = ('{1,2,3}'::integer[])[7] RETURNING number;
-- What a statement has changed is not seen by its subqueries.
-- refused
UPDATE entry SET amount = amount + 1 WHERE account = 1 RETURNING number, (SELECT sum(amount) FROM entry);
-- refused
INSERT INTO entry (account, number, amount) VALUES (1, 1, 1), (1, 2, 2) ON CONFLICT (account, number) DO UPDATE SET amount = (SELECT sum(amount) FROM entry WHERE account = 1);
INSERT INTO entry (account, number, amount) VALUES (1, 1, 1) ON CONFLICT (account, number) DO UPDATE SET amount = (SELECT sum(amount) FROM entry WHERE account = 1) RETURNING amount;
INSERT INTO account DEFAULT VALUES;
INSERT INTO entry VALUES (3, 1, 5, '2024-03-01 12:00', ARRAY['x', 'y'], '{"a": [1, 2]}') RETURNING words[2], doc -> 'a' ->> 0;
INSERT INTO entry (account, number, amount) VALUES (3, 2, 5), (3, 3, 6), (1, 3, 7);
SELECT account, number, amount FROM entry ORDER BY account, number;
INSERT INTO counter AS c (id) VALUES (3) RETURNING c.hits;
INSERT INTO counter (id, hits) VALUES (4, 4), (5, 5), (6, 6) RETURNING id, hits;
-- refused
INSERT INTO rate (kind, percent) VALUES ('new', 3) RETURNING kind;
-- ON CONFLICT
INSERT INTO counter (id, hits) VALUES (1, 1) ON CONFLICT DO NOTHING;
INSERT INTO counter (id, hits) VALUES (1, 1) ON CONFLICT (id) DO NOTHING RETURNING id;
INSERT INTO counter (id, hits) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET hits = counter.hits + EXCLUDED.hits RETURNING hits;
INSERT INTO counter (id, hits) VALUES (1, 5), (7, 7) ON CONFLICT (id) DO UPDATE SET hits = EXCLUDED.hits RETURNING id, hits;
INSERT INTO counter AS c (id, hits) VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET hits = c.hits + 1, seen = 'again' WHERE c.hits < 100 RETURNING *;
INSERT INTO counter AS c (id, hits) VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET hits = 0 WHERE c.hits > 100 RETURNING *;
INSERT INTO counter (id) VALUES (2) ON CONFLICT (id) DO UPDATE SET seen = coalesce(counter.seen, '') || '!' RETURNING seen;
INSERT INTO counter (id, seen) VALUES (8, 'eight') ON CONFLICT (id) DO UPDATE SET seen = EXCLUDED.seen RETURNING seen;
INSERT INTO counter (id) VALUES (1) ON CONFLICT (hits) DO NOTHING;
INSERT INTO counter (id, hits) VALUES (30, 1), (30, 2) ON CONFLICT (id) DO UPDATE SET hits = EXCLUDED.hits;
INSERT INTO counter (id, hits) VALUES (1, 1), (2, 2), (1, 3) ON CONFLICT (id) DO UPDATE SET hits = EXCLUDED.hits;
INSERT INTO counter (id, hits) VALUES (31, 1), (31, 2) ON CONFLICT (id) DO NOTHING RETURNING hits;
INSERT INTO counter (id, hits) VALUES (31, 5), (32, 6) ON CONFLICT (id) DO UPDATE SET hits = EXCLUDED.hits RETURNING id, hits;
INSERT INTO counter (id, hits) VALUES (31, 5), (31, 6) ON CONFLICT (id) DO UPDATE SET hits = EXCLUDED.hits WHERE counter.hits > 100;
INSERT INTO counter (id, hits) VALUES (31, 7) ON CONFLICT (id) DO UPDATE SET hits = EXCLUDED.hits;
SELECT id, hits FROM counter WHERE id > 20 ORDER BY id;
DELETE FROM counter WHERE id > 20;
INSERT INTO counter (id) VALUES (1) ON CONFLICT DO UPDATE SET hits = 1;
INSERT INTO counter (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET nothing = 1;
INSERT INTO counter (id, hits) VALUES (1, 2) ON CONFLICT (id) DO UPDATE SET (hits, seen) = (EXCLUDED.hits * 2, 'both') RETURNING hits, seen;
INSERT INTO account (id, owner, email) VALUES (1, 'Ann2', 'ann@x') ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner RETURNING owner;
SELECT * FROM counter ORDER BY id;
-- INSERT … SELECT
INSERT INTO counter (id, hits) SELECT 201, 5 WHERE false RETURNING id;
INSERT INTO entry (account, number, amount) SELECT account, number + 100, amount FROM entry WHERE account = 1 AND number < 3 RETURNING number;
SELECT count(*), sum(amount) FROM entry;
-- UPDATE
UPDATE account SET balance = balance + 10 WHERE id = 1;
UPDATE account SET balance = balance + 10 WHERE id = 1 RETURNING balance;
UPDATE account SET balance = balance - 1, owner = owner || '.' WHERE id IN (1, 2) RETURNING id, owner, balance;
UPDATE account SET balance = DEFAULT WHERE id = 2 RETURNING balance;
UPDATE account SET (balance, owner) = (7, 'Seven') WHERE id = 3 RETURNING *;
UPDATE account SET (balance, owner) = ROW (8, 'Eight') WHERE id = 3 RETURNING balance;
UPDATE account a SET kind = 'silver' WHERE a.id = 3 RETURNING a.kind, a.id * 2;
UPDATE account SET kind = NULL WHERE kind = 'silver' RETURNING id, kind;
UPDATE account SET balance = 5 WHERE id = 999 RETURNING id;
UPDATE account SET balance = -5000 WHERE id = 1;
UPDATE account SET owner = NULL WHERE id = 1;
UPDATE account SET email = 'cid@x' WHERE id = 1;
UPDATE account SET id = 'x' WHERE id = 1;
UPDATE account SET nothing = 1;
UPDATE account SET balance = 1, balance = 2 WHERE id = 1;
UPDATE account SET kind = upper(kind), opened = opened + 7 WHERE id = 1 RETURNING kind, opened;
UPDATE account SET balance = CASE WHEN balance > 100 THEN balance * 2 ELSE 0 END WHERE id IN (1, 2) RETURNING id, balance;
UPDATE account SET flags = flags | 8 WHERE balance > 0 RETURNING id, flags;
UPDATE account SET opened = NULL WHERE owner LIKE 'H%' RETURNING owner, opened;
UPDATE entry SET words = words || 'z'::text WHERE account = 3 AND number = 1 RETURNING words;
UPDATE entry SET words = ARRAY[]::text[] WHERE words IS NULL AND account = 1 RETURNING number, words;
UPDATE entry SET doc = jsonb_set(doc, '{n}', '2') WHERE account = 1 AND number = 1 RETURNING doc;
UPDATE entry SET at = at + interval '1 hour' WHERE at IS NOT NULL AND account = 1 RETURNING number, at;
UPDATE entry SET amount = amount + 1 WHERE account = 1 RETURNING number, amount;
UPDATE entry SET amount = -amount WHERE (account, number) IN ((1, 1), (2, 1)) RETURNING account, amount;
UPDATE account SET balance = balance + r.percent FROM rate r WHERE r.kind = account.kind AND account.id = 2 RETURNING account.id, account.balance, r.percent;
UPDATE account a SET balance = (SELECT sum(e.amount) FROM entry e WHERE e.account = a.id) WHERE a.id = 1 RETURNING balance;
UPDATE account SET balance = v.b FROM (VALUES (13, 33.0), (14, 44.0)) AS v (i, b) WHERE account.id = v.i AND account.id = 13 RETURNING account.id, balance;
UPDATE entry SET amount = 0 FROM account WHERE account.id = entry.account AND entry.account = 1 AND account.owner LIKE 'Ann%' RETURNING number;
UPDATE counter SET hits = hits + 1;
UPDATE counter SET hits = hits + 1 WHERE hits > 6 RETURNING id, hits;
UPDATE counter SET seen = 'n' || id WHERE seen IS NULL RETURNING seen;
SELECT * FROM counter ORDER BY id;
-- DELETE
DELETE FROM counter WHERE id = 8;
DELETE FROM counter WHERE id = 8 RETURNING id;
DELETE FROM counter WHERE id IN (3, 4) RETURNING id, hits;
DELETE FROM counter WHERE hits > 50 AND id > 100;
DELETE FROM counter c WHERE c.seen = 'n5' RETURNING c.*;
DELETE FROM counter WHERE id BETWEEN 5 AND 6 RETURNING *;
DELETE FROM entry WHERE account = 1 AND number > 100 RETURNING number;
DELETE FROM entry USING account a WHERE a.id = entry.account AND entry.account = 2 AND a.owner LIKE 'Bob%' RETURNING entry.number, a.owner;
DELETE FROM entry e USING account a WHERE a.id = e.account AND a.id = 3 AND e.number = 1 RETURNING e.number;
DELETE FROM account WHERE id = 1000;
DELETE FROM account WHERE nothing = 1;
DELETE FROM nowhere;
DELETE FROM account WHERE balance;
DELETE FROM account WHERE id = 26 RETURNING owner, 1 AS one, NULL AS nothing;
DELETE FROM counter;
SELECT count(*) FROM counter;
SELECT * FROM account ORDER BY id;
SELECT * FROM entry ORDER BY account, number;
SELECT * FROM rate ORDER BY kind;
-- refused
WITH p AS (SELECT 'gold' AS k) UPDATE rate SET percent = percent + 1 FROM p WHERE rate.kind = p.k RETURNING rate.kind, percent;
-- refused
WITH p AS (SELECT 'with' AS k, 9 AS n) INSERT INTO rate SELECT k, n FROM p RETURNING *;
-- refused
WITH p AS (SELECT 'with' AS k) DELETE FROM rate USING p WHERE rate.kind = p.k RETURNING rate.kind;
INSERT INTO counter (id, hits) VALUES (1, 1), (2, 2), (3, 3);
UPDATE counter SET hits = hits * 10 WHERE id = ANY (ARRAY[1, 3]) RETURNING id, hits;
UPDATE counter SET hits = hits + id, seen = NULL WHERE id <> 2 RETURNING *;
INSERT INTO counter (id, hits, seen) VALUES (1, 5, 'a'), (9, 5, 'b') ON CONFLICT (id) DO UPDATE SET hits = counter.hits + 1, seen = EXCLUDED.seen || counter.hits RETURNING *;
SELECT id, hits, seen FROM counter ORDER BY id;
INSERT INTO counter (id, hits, seen) VALUES (22, 5, 'a'), (22, 6, 'b') ON CONFLICT (id) DO NOTHING;
UPDATE counter SET seen = 'x' WHERE (id = 1 AND hits >= 0) OR id IN (22, 3) RETURNING id;
DELETE FROM counter WHERE (id, seen) IN ((22, 'x'), (3, 'nobody'));
SELECT id, hits, seen FROM counter ORDER BY id;
