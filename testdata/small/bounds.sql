-- app: lower-bound-raised
-- why: Both branches only add, so the merge is above each of them.
-- raise: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: lower-bound-lowered
-- why: Of 1, each branch takes 1, and the merge has -1.
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: lower-bound-both-ways
-- why: Sums commute: what is added takes nothing away from what the other branch may take.
-- raise: c yes
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: lower-bound-set
-- why: The later assignment wins, and it was valid.
-- assign: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = q WHERE id = p; END;
-- app: lower-bound-set-beside-lowering
-- why: From 10 one branch takes 6, the other sets 5; folded after the assignment the merge has -1.
-- assign: c no
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE assign(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = 5 WHERE id = p; END;
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: lower-bound-set-beside-raising
-- why: What is added to the assigned value only raises it; what is overwritten is gone.
-- assign: c yes
-- raise: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = q WHERE id = p; END;
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 2 WHERE id = p; END;
-- app: lower-bound-greatest
-- why: The greatest of two valid values is one of them.
-- keep: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE keep(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = greatest(n, q) WHERE id = p; END;
-- app: lower-bound-least
-- why: The least of two valid values is one of them.
-- cap: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE cap(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = least(n, q) WHERE id = p; END;
-- app: lower-bound-least-beside-lowering
-- why: From 10 one branch takes 5, the other caps at 3; capped first and taken from then, the merge has -2.
-- cap: c no
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE cap(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = least(n, q) WHERE id = p; END;
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: lower-bound-any-amount
-- why: An amount that the caller chooses may be negative.
-- change: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + q WHERE id = p; END;
-- app: lower-bound-amount-tested
-- why: The text lets only positive amounts pass.
-- deposit: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE deposit(p int, q int) LANGUAGE plpgsql AS $$ BEGIN
  IF q <= 0 THEN RAISE EXCEPTION 'positive amounts only'; END IF;
  UPDATE t SET n = n + q WHERE id = p; END $$;
-- app: lower-bound-amount-tested-by-return
-- why: Whoever gives an amount that is not positive gets nothing done; every addition is of a positive one.
-- deposit: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE deposit(p int, q int) LANGUAGE plpgsql AS $$ BEGIN
  IF q <= 0 THEN RETURN; END IF;
  UPDATE t SET n = n + q WHERE id = p; END $$;
-- app: lower-bound-amount-tested-the-wrong-way
-- why: Only negative amounts pass the test.
-- take: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE take(p int, q int) LANGUAGE plpgsql AS $$ BEGIN
  IF q >= 0 THEN RAISE EXCEPTION 'negative amounts only'; END IF;
  UPDATE t SET n = n + q WHERE id = p; END $$;
-- app: lower-bound-balance-tested
-- why: The balance that was tested is that of one branch; each of two takes 6 of 10.
-- take: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE take(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 6 WHERE id = p AND n >= 6; END;
-- app: lower-bound-balance-read-before
-- why: What was read before is of one branch, whoever reads it.
-- take: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE take(p int) LANGUAGE plpgsql AS $$ DECLARE h int; BEGIN
  SELECT n INTO h FROM t WHERE id = p;
  IF h >= 6 THEN UPDATE t SET n = n - 6 WHERE id = p; END IF; END $$;
-- app: lower-bound-inserted-and-deleted
-- why: A new row was checked where it was made, and a row that is gone breaks nothing.
-- add: c yes
-- remove: c yes
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE add(q int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO t (n) VALUES (q); END;
CREATE PROCEDURE remove(p uuid) LANGUAGE SQL BEGIN ATOMIC DELETE FROM t WHERE id = p; END;
-- app: lower-bound-inserted-beside-lowering
-- why: The other branch does not see the new row, so nobody lowers it there.
-- add: c yes
-- lower: c no
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE add(q int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO t (n) VALUES (q); END;
CREATE PROCEDURE lower(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: lower-bound-doubled
-- why: Twice something that is not negative is not negative, whatever it was.
-- double: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE double(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n * 2 WHERE id = p; END;
-- app: lower-bound-to-zero
-- why: Nobody takes from it, so zero stays.
-- reset: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE reset(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = 0 WHERE id = p; END;
-- app: lower-bound-other-column
-- why: The condition does not speak of the column that is taken from.
-- lower: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, m int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET m = m - 1 WHERE id = p; END;
-- app: strict-lower-bound-raised
-- why: Additions only raise it.
-- raise: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n > 0));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: strict-lower-bound-lowered
-- why: Of 2, each takes 1, and 0 is left.
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n > 0));
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: upper-bound-raised
-- why: Of 9 with a limit of 10, each branch adds 1.
-- raise: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <= 10));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: upper-bound-lowered
-- why: Both branches only take away.
-- lower: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <= 10));
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: upper-bound-both-ways
-- why: Who adds may meet another who adds; who takes away leaves more room.
-- raise: c no
-- lower: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <= 10));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: upper-bound-set-beside-raising
-- why: One branch sets 10, the other adds 1 to something less; added after the assignment it is 11.
-- fill: c no
-- raise: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <= 10));
CREATE PROCEDURE fill(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = 10 WHERE id = p; END;
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: upper-bound-least
-- why: The least of two valid values is one of them.
-- cap: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <= 10));
CREATE PROCEDURE cap(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = least(n, q) WHERE id = p; END;
-- app: upper-bound-greatest
-- why: The greatest of two valid values is one of them.
-- keep: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <= 10));
CREATE PROCEDURE keep(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = greatest(n, q) WHERE id = p; END;
-- app: between-set
-- why: A later assignment wins, and it was valid.
-- assign: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n BETWEEN 1 AND 5));
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = q WHERE id = p; END;
-- app: between-both-ways
-- why: Each direction may cross its bound.
-- raise: c no
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n BETWEEN 1 AND 5));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: not-a-value-raised
-- why: From -2 each branch makes -1; the merge has 0.
-- raise: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <> 0));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: not-a-value-set
-- why: A later assignment wins, and it was valid.
-- assign: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n <> 0));
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = q WHERE id = p; END;
-- app: one-of-a-list-set
-- why: A later assignment wins, and it was valid.
-- assign: c yes
CREATE TABLE t (id int PRIMARY KEY, s text NOT NULL, CONSTRAINT c CHECK (s IN ('new', 'paid', 'sent')));
CREATE PROCEDURE assign(p int, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET s = q WHERE id = p; END;
-- app: one-of-a-list-counted-up
-- why: From 1 each branch adds 1 and is at 2; the merge has 3, which is not in the list.
-- raise: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n IN (1, 2, 5)));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: or-of-two-bounds
-- why: A value that is set is valid by itself.
-- assign: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n < 0 OR n > 10));
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = q WHERE id = p; END;
-- app: or-of-two-bounds-raised
-- why: From -20 each branch adds 15 and is at -5; the merge has 10, which is in the gap.
-- raise: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n < 0 OR n > 10));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 15 WHERE id = p; END;
-- app: lower-bound-of-all-rows
-- why: Each row is lowered in both branches.
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE lower() LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1; END;
-- app: lower-bound-by-a-call
-- why: What is called does it, whoever calls.
-- outer_take: c no
-- take: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE take(p int) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET n = n - 1 WHERE id = p; END $$;
CREATE PROCEDURE outer_take(p int) LANGUAGE plpgsql AS $$ BEGIN CALL take(p); END $$;
-- app: lower-bound-taken-back-at-once
-- why: Two is added and one taken away: together it is an addition.
-- change: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int) LANGUAGE plpgsql AS $$ BEGIN
  UPDATE t SET n = n + 2 WHERE id = p; UPDATE t SET n = n - 1 WHERE id = p; END $$;
-- app: lower-bound-added-and-more-taken
-- why: One is added and two taken away: of 1 each branch leaves 0, and the merge -1.
-- change: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int) LANGUAGE plpgsql AS $$ BEGIN
  UPDATE t SET n = n + 1 WHERE id = p; UPDATE t SET n = n - 2 WHERE id = p; END $$;
-- app: lower-bound-of-a-square
-- why: A square is never negative.
-- raise: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE raise(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + q * q WHERE id = p; END;
-- app: lower-bound-of-a-loop
-- why: Each turn takes one away.
-- lower: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE lower(p int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..2 LOOP UPDATE t SET n = n - 1 WHERE id = p; END LOOP; END $$;
-- app: lower-bound-by-the-loop-variable
-- why: The loop's numbers begin at 1.
-- raise: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE raise(p int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..3 LOOP UPDATE t SET n = n + i WHERE id = p; END LOOP; END $$;
-- app: lower-bound-returned-too-late
-- why: It has added before it looks: of 6, each branch takes 5.
-- change: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int, q int) LANGUAGE plpgsql AS $$ BEGIN
  UPDATE t SET n = n + q WHERE id = p; IF q <= 0 THEN RETURN; END IF; UPDATE t SET n = n + q WHERE id = p; END $$;
-- app: lower-bound-left-by-exit
-- why: EXIT leaves the block alone; what comes behind it adds what was tested away.
-- change: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int, q int) LANGUAGE plpgsql AS $$ BEGIN
  <<b>> BEGIN IF q <= 0 THEN EXIT b; END IF; END; UPDATE t SET n = n + q WHERE id = p; END $$;
-- app: lower-bound-added-and-taken-of-different-rows
-- why: Two is added to one row and one taken from another: of 1 each branch takes it.
-- change: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int, o int) LANGUAGE plpgsql AS $$ BEGIN
  UPDATE t SET n = n + 2 WHERE id = p; UPDATE t SET n = n - 1 WHERE id = o; END $$;
-- app: lower-bound-added-if-asked
-- why: The addition is only there if the caller wants it.
-- change: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int, f boolean) LANGUAGE plpgsql AS $$ BEGIN
  IF f THEN UPDATE t SET n = n + 2 WHERE id = p; END IF; UPDATE t SET n = n - 1 WHERE id = p; END $$;
-- app: lower-bound-doubled-less-one
-- why: Twice 0 less one is -1: of 1 one branch takes 1, the other makes it 1.
-- double: c no
-- take: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE double(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n * 2 - 1 WHERE id = p; END;
CREATE PROCEDURE take(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: lower-bound-clamped-beside-taking
-- why: Of 1 one branch clamps it to 0, the other takes 1: merged it is -1.
-- lower: c no
-- take: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = greatest(n - 1, 0) WHERE id = p; END;
CREATE PROCEDURE take(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: lower-bound-turned-over
-- why: Of 5, one branch adds 6 and has 11, the other makes it 10 less 5; of 11 that is -1.
-- raise: c no
-- turn: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 6 WHERE id = p; END;
CREATE PROCEDURE turn(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = 10 - n WHERE id = p; END;
-- app: lower-bound-by-a-loop-from-below
-- why: The loop's numbers begin below zero: -1 is among them.
-- change: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE change(p int) LANGUAGE plpgsql AS $$ BEGIN FOR i IN -1..0 LOOP UPDATE t SET n = n + i WHERE id = p; END LOOP; END $$;
