-- app: ordered-pair-set-together
-- why: Whoever writes one writes both, so the merge has a pair that was valid.
-- assign: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE assign(p int, q int, r int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = q, b = r WHERE id = p; END;
-- app: ordered-pair-set-apart
-- why: Of (1, 9) one branch sets a to 8, the other b to 2.
-- set_a: c no
-- set_b: c no
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE set_a(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = q WHERE id = p; END;
CREATE PROCEDURE set_b(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = q WHERE id = p; END;
-- app: ordered-pair-one-set
-- why: b never changes, so a later a is as valid as it was.
-- set_a: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE set_a(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = q WHERE id = p; END;
-- app: ordered-pair-widened
-- why: One branch lowers a, the other raises b: both only widen the distance.
-- lower_a: c yes
-- raise_b: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE lower_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a - 1 WHERE id = p; END;
CREATE PROCEDURE raise_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = b + 1 WHERE id = p; END;
-- app: ordered-pair-narrowed
-- why: Of (1, 2) each branch raises a by 1.
-- raise_a: c no
-- raise_b: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE raise_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a + 1 WHERE id = p; END;
CREATE PROCEDURE raise_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = b + 1 WHERE id = p; END;
-- app: ordered-pair-both-raised-alike
-- why: The distance stays.
-- shift: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE shift(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a + q, b = b + q WHERE id = p; END;
-- app: ordered-pair-upper-raised-more
-- why: The distance grows by 1.
-- shift: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE shift(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a + 1, b = b + 2 WHERE id = p; END;
-- app: ordered-pair-lower-raised-more
-- why: Of (1, 2) each branch narrows the distance by 1.
-- shift: c no
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE shift(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a + 2, b = b + 1 WHERE id = p; END;
-- app: ordered-pair-set-beside-widening
-- why: a was valid with a b that was at most as high.
-- set_a: c yes
-- raise_b: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE set_a(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = q WHERE id = p; END;
CREATE PROCEDURE raise_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = b + 1 WHERE id = p; END;
-- app: ordered-pair-set-beside-narrowing
-- why: Of (1, 5) one branch sets a to 5, the other lowers b to 4.
-- set_a: c no
-- lower_b: c no
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE set_a(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = q WHERE id = p; END;
CREATE PROCEDURE lower_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = b - 1 WHERE id = p; END;
-- app: ordered-pair-inserted
-- why: A new row is checked where it is made, and nobody changes it.
-- add: c yes
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE add(q int, r int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO t (a, b) VALUES (q, r); END;
-- app: either-is-set
-- why: Of (1, 1) each branch sets one of them to NULL; the merge has neither.
-- drop_a: c no
-- drop_b: c no
CREATE TABLE t (id int PRIMARY KEY, a int, b int, CONSTRAINT c CHECK (a IS NOT NULL OR b IS NOT NULL));
CREATE PROCEDURE drop_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = NULL WHERE id = p; END;
CREATE PROCEDURE drop_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = NULL WHERE id = p; END;
-- app: either-is-set-one-dropped
-- why: b never changes.
-- drop_a: c yes
CREATE TABLE t (id int PRIMARY KEY, a int, b int, CONSTRAINT c CHECK (a IS NOT NULL OR b IS NOT NULL));
CREATE PROCEDURE drop_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = NULL WHERE id = p; END;
-- app: not-both
-- why: Each branch sets another one; the merge has both.
-- set_a: c no
-- set_b: c no
CREATE TABLE t (id int PRIMARY KEY, a boolean NOT NULL, b boolean NOT NULL, CONSTRAINT c CHECK (NOT (a AND b)));
CREATE PROCEDURE set_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = true WHERE id = p; END;
CREATE PROCEDURE set_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = true WHERE id = p; END;
-- app: not-both-cleared
-- why: Only false is written.
-- clear_a: c yes
-- clear_b: c yes
CREATE TABLE t (id int PRIMARY KEY, a boolean NOT NULL, b boolean NOT NULL, CONSTRAINT c CHECK (NOT (a AND b)));
CREATE PROCEDURE clear_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = false WHERE id = p; END;
CREATE PROCEDURE clear_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = false WHERE id = p; END;
-- app: state-implies-date-together
-- why: State and date are written together, always.
-- send: c yes
CREATE TABLE t (id int PRIMARY KEY, state text NOT NULL, sent date, CONSTRAINT c CHECK (state <> 'sent' OR sent IS NOT NULL));
CREATE PROCEDURE send(p int, d date) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET state = 'sent', sent = d WHERE id = p; END;
-- app: state-implies-date-apart
-- why: The date is there; one branch takes it away, the other sets the state.
-- send: c no
-- forget: c no
CREATE TABLE t (id int PRIMARY KEY, state text NOT NULL, sent date, CONSTRAINT c CHECK (state <> 'sent' OR sent IS NOT NULL));
CREATE PROCEDURE send(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET state = 'sent' WHERE id = p; END;
CREATE PROCEDURE forget(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET sent = NULL WHERE id = p; END;
-- app: total-of-two-columns
-- why: 100 is shared: each of two branches adds to another one.
-- add_a: c no
-- add_b: c no
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a + b <= 100));
CREATE PROCEDURE add_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a + 1 WHERE id = p; END;
CREATE PROCEDURE add_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = b + 1 WHERE id = p; END;
-- app: total-of-two-columns-moved
-- why: What one gets the other loses, in one operation on one row.
-- move: c yes
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a + b <= 100));
CREATE PROCEDURE move(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a + q, b = b - q WHERE id = p; END;
-- app: not-null-set
-- why: Whoever sets it sets a value.
-- assign: t.n not null yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = q WHERE id = p; END;
-- app: not-null-raised
-- why: A number and a number are a number.
-- raise: t.n not null yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: not-null-from-another-column
-- why: m is a number in one branch and NULL in the other; computed anew on the merged row n is NULL.
-- take: t.n not null no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, m int);
CREATE PROCEDURE take(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = m + 1 WHERE id = p AND m IS NOT NULL; END;
CREATE PROCEDURE forget(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET m = NULL WHERE id = p; END;
-- app: not-null-with-a-default
-- why: coalesce() with a constant is never NULL.
-- take: t.n not null yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, m int);
CREATE PROCEDURE take(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = coalesce(m, 0) WHERE id = p; END;
CREATE PROCEDURE forget(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET m = NULL WHERE id = p; END;
-- app: not-null-bits
-- why: n is never NULL, so n | 8 is not.
-- mark: t.n not null yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE PROCEDURE mark(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n | 8 WHERE id = p; END;
-- app: not-null-clamped
-- why: greatest() of two values that are not NULL is none.
-- lower: t.n not null yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = greatest(n - 1, 0) WHERE id = p; END;
-- app: domain-checked
-- why: A later assignment wins, and it was in the domain.
-- assign: t_g_grade_check yes
CREATE DOMAIN grade AS int CONSTRAINT grade_check CHECK (VALUE BETWEEN 1 AND 6);
CREATE TABLE t (id int PRIMARY KEY, g grade NOT NULL);
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET g = q WHERE id = p; END;
-- app: domain-counted-up
-- why: Of 5, each branch adds 1.
-- raise: t_g_grade_check no
CREATE DOMAIN grade AS int CONSTRAINT grade_check CHECK (VALUE BETWEEN 1 AND 6);
CREATE TABLE t (id int PRIMARY KEY, g grade NOT NULL);
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET g = g + 1 WHERE id = p; END;
-- app: ordered-pair-set-beside-moving-both
-- why: Of (2, 5) one branch sets a to 5, the other takes 3 from both: b is 2.
-- set_a: c no
-- shift: c no
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, CONSTRAINT c CHECK (a <= b));
CREATE PROCEDURE set_a(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = q WHERE id = p; END;
CREATE PROCEDURE shift(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = a + q, b = b + q WHERE id = p; END;
-- app: not-both-one-set
-- why: One branch clears a and the other sets it; b was set where a was clear.
-- clear_a: c yes
CREATE TABLE t (id int PRIMARY KEY, a boolean NOT NULL, b boolean NOT NULL, CONSTRAINT c CHECK (NOT (a AND b)));
CREATE PROCEDURE clear_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = false WHERE id = p; END;
-- app: not-both-swapped
-- why: Of (false, true), one branch makes it (true, false), the other sets b alone: merged both are true.
-- prefer_a: c no
-- set_b: c no
CREATE TABLE t (id int PRIMARY KEY, a boolean NOT NULL, b boolean NOT NULL, CONSTRAINT c CHECK (NOT (a AND b)));
CREATE PROCEDURE prefer_a(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET a = true, b = false WHERE id = p; END;
CREATE PROCEDURE set_b(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET b = true WHERE id = p; END;
-- app: not-null-greatest-of-what-may-be-null
-- why: m is a number in one branch and NULL in the other, and the other number is NULL: computed anew on the merged row n is NULL.
-- take: t.n not null no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, m int, o int);
CREATE PROCEDURE take(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = greatest(m, o) WHERE id = p; END;
CREATE PROCEDURE forget(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET m = NULL WHERE id = p; END;
-- app: not-null-appended
-- why: Whatever is appended to a list, the list is there.
-- tag: t.tags not null yes
CREATE TABLE t (id int PRIMARY KEY, tags text[] NOT NULL);
CREATE PROCEDURE tag(p int, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET tags = array_append(tags, q) WHERE id = p; END;
