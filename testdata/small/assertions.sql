-- app: no-row-below
-- why: It is a condition on each row by itself: an addition breaks none.
-- raise: none_below yes
-- add: none_below yes
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL);
CREATE ASSERTION none_below CHECK (NOT EXISTS (SELECT 1 FROM t WHERE n < 0));
CREATE PROCEDURE raise(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
CREATE PROCEDURE add() LANGUAGE SQL BEGIN ATOMIC INSERT INTO t (n) VALUES (1); END;
-- app: no-row-below-lowered
-- why: Of 1, each branch takes 1.
-- lower: none_below no
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL);
CREATE ASSERTION none_below CHECK (NOT EXISTS (SELECT 1 FROM t WHERE n < 0));
CREATE PROCEDURE lower(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: somebody-there
-- why: Of two, each branch removes one; who comes breaks nothing.
-- leave_us: somebody no
-- join_in: somebody yes
CREATE TABLE member (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
CREATE ASSERTION somebody CHECK (EXISTS (SELECT 1 FROM member));
CREATE PROCEDURE leave_us(p uuid) LANGUAGE SQL BEGIN ATOMIC DELETE FROM member WHERE id = p; END;
CREATE PROCEDURE join_in() LANGUAGE SQL BEGIN ATOMIC INSERT INTO member DEFAULT VALUES; END;
-- app: five-at-most
-- why: Of four, each branch adds one; who goes leaves more room.
-- join_in: five no
-- leave_us: five yes
CREATE TABLE member (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
CREATE ASSERTION five CHECK ((SELECT count(*) FROM member) <= 5);
CREATE PROCEDURE join_in() LANGUAGE SQL BEGIN ATOMIC INSERT INTO member DEFAULT VALUES; END;
CREATE PROCEDURE leave_us(p uuid) LANGUAGE SQL BEGIN ATOMIC DELETE FROM member WHERE id = p; END;
-- app: two-at-least
-- why: Of three, each branch removes another one.
-- leave_us: two no
-- join_in: two yes
CREATE TABLE member (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
CREATE ASSERTION two CHECK ((SELECT count(*) FROM member) >= 2);
CREATE PROCEDURE leave_us(p uuid) LANGUAGE SQL BEGIN ATOMIC DELETE FROM member WHERE id = p; END;
CREATE PROCEDURE join_in() LANGUAGE SQL BEGIN ATOMIC INSERT INTO member DEFAULT VALUES; END;
-- app: someone-on-call
-- why: Of two on call, each goes off after it has seen the other.
-- go_off: someone no
-- go_on: someone yes
CREATE TABLE doctor (id int PRIMARY KEY, on_call boolean NOT NULL);
CREATE ASSERTION someone CHECK (EXISTS (SELECT 1 FROM doctor WHERE on_call));
CREATE PROCEDURE go_off(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE doctor SET on_call = false WHERE id = p; END;
CREATE PROCEDURE go_on(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE doctor SET on_call = true WHERE id = p; END;
-- app: someone-on-call-in-each-ward
-- why: Of two of one ward, each goes off after it has seen the other.
-- go_off: someone no
CREATE TABLE ward (id int PRIMARY KEY);
CREATE TABLE doctor (id int PRIMARY KEY, ward int NOT NULL, on_call boolean NOT NULL);
CREATE ASSERTION someone CHECK (NOT EXISTS (SELECT 1 FROM ward w WHERE EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id)
  AND NOT EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.on_call)));
CREATE PROCEDURE go_off(p int, o int) LANGUAGE plpgsql AS $$ BEGIN
  IF EXISTS (SELECT 1 FROM doctor WHERE id = o AND on_call) THEN UPDATE doctor SET on_call = false WHERE id = p; END IF; END $$;
-- app: one-leader-at-most
-- why: Each branch makes another one the leader; who steps down breaks nothing.
-- lead: one_leader no
-- step_down: one_leader yes
CREATE TABLE member (id int PRIMARY KEY, leads boolean NOT NULL);
CREATE ASSERTION one_leader CHECK ((SELECT count(*) FROM member WHERE leads) <= 1);
CREATE PROCEDURE lead(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE member SET leads = true WHERE id = p; END;
CREATE PROCEDURE step_down(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE member SET leads = false WHERE id = p; END;
-- app: sum-bounded-above
-- why: Of 99, each branch adds 1 to another row; who takes away leaves more room.
-- raise: hundred no
-- lower: hundred yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE ASSERTION hundred CHECK ((SELECT coalesce(sum(n), 0) FROM t) <= 100);
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: sum-bounded-below
-- why: Of 1 in all, each branch takes 1 from another row.
-- lower: not_negative no
-- raise: not_negative yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE ASSERTION not_negative CHECK ((SELECT coalesce(sum(n), 0) FROM t) >= 0);
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
CREATE PROCEDURE lower(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n - 1 WHERE id = p; END;
-- app: two-sums-alike
-- why: What one side gets the other gets too, in one transaction.
-- book: balanced yes
CREATE TABLE debit (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL);
CREATE TABLE credit (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL);
CREATE ASSERTION balanced CHECK ((SELECT coalesce(sum(n), 0) FROM debit) = (SELECT coalesce(sum(n), 0) FROM credit));
CREATE PROCEDURE book(q int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO debit (n) VALUES (q); INSERT INTO credit (n) VALUES (q); END $$;
-- app: total-of-lines
-- why: The line and the total move by one amount, and both only add.
-- add_line: total_fits yes
CREATE TABLE orders (id int PRIMARY KEY, total int NOT NULL);
CREATE TABLE line (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), orders int NOT NULL REFERENCES orders (id), amount int NOT NULL);
CREATE ASSERTION total_fits CHECK (NOT EXISTS (SELECT 1 FROM orders o WHERE o.total <> (SELECT coalesce(sum(l.amount), 0) FROM line l WHERE l.orders = o.id)));
CREATE PROCEDURE add_line(o int, q int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO line (orders, amount) VALUES (o, q); UPDATE orders SET total = total + q WHERE id = o; END $$;
-- app: total-of-lines-removed
-- why: Two branches remove one line, and the total goes down twice.
-- remove_line: total_fits no
CREATE TABLE orders (id int PRIMARY KEY, total int NOT NULL);
CREATE TABLE line (id int PRIMARY KEY, orders int NOT NULL REFERENCES orders (id), amount int NOT NULL);
CREATE ASSERTION total_fits CHECK (NOT EXISTS (SELECT 1 FROM orders o WHERE o.total <> (SELECT coalesce(sum(l.amount), 0) FROM line l WHERE l.orders = o.id)));
CREATE PROCEDURE remove_line(p int) LANGUAGE plpgsql AS $$ DECLARE o int; q int; BEGIN
  DELETE FROM line WHERE id = p RETURNING orders, amount INTO o, q;
  UPDATE orders SET total = total - q WHERE id = o; END $$;
-- app: total-computed-anew
-- why: Each branch computes the sum of the lines that it sees; the later one overwrites.
-- add_line: total_fits no
CREATE TABLE orders (id int PRIMARY KEY, total int NOT NULL);
CREATE TABLE line (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), orders int NOT NULL REFERENCES orders (id), amount int NOT NULL);
CREATE ASSERTION total_fits CHECK (NOT EXISTS (SELECT 1 FROM orders o WHERE o.total <> (SELECT coalesce(sum(l.amount), 0) FROM line l WHERE l.orders = o.id)));
CREATE PROCEDURE add_line(o int, q int) LANGUAGE plpgsql AS $$ DECLARE s int; BEGIN
  INSERT INTO line (orders, amount) VALUES (o, q);
  SELECT sum(amount) INTO s FROM line WHERE orders = o;
  UPDATE orders SET total = s WHERE id = o; END $$;
-- app: each-order-has-a-line
-- why: Order and line come together, and nothing goes.
-- place_order: has_line yes
CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
CREATE TABLE line (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), orders uuid NOT NULL REFERENCES orders (id));
CREATE ASSERTION has_line CHECK (NOT EXISTS (SELECT 1 FROM orders o WHERE NOT EXISTS (SELECT 1 FROM line l WHERE l.orders = o.id)));
CREATE PROCEDURE place_order() LANGUAGE plpgsql AS $$ DECLARE k uuid; BEGIN
  INSERT INTO orders DEFAULT VALUES RETURNING id INTO k; INSERT INTO line (orders) VALUES (k); END $$;
-- app: each-order-has-a-line-removed
-- why: Of two lines, each branch removes another.
-- remove_line: has_line no
CREATE TABLE orders (id int PRIMARY KEY);
CREATE TABLE line (id int PRIMARY KEY, orders int NOT NULL REFERENCES orders (id));
CREATE ASSERTION has_line CHECK (NOT EXISTS (SELECT 1 FROM orders o WHERE NOT EXISTS (SELECT 1 FROM line l WHERE l.orders = o.id)));
CREATE PROCEDURE remove_line(p int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM line WHERE id = p; END;
-- app: exactly-when-paid
-- why: One branch pays and books, the other cancels; the merge is cancelled with a booking.
-- pay: paid_is_booked no
-- cancel: paid_is_booked no
CREATE TABLE orders (id int PRIMARY KEY, paid boolean NOT NULL);
CREATE TABLE booking (orders int PRIMARY KEY REFERENCES orders (id));
CREATE ASSERTION paid_is_booked CHECK (NOT EXISTS (SELECT 1 FROM booking b JOIN orders o ON o.id = b.orders WHERE NOT o.paid));
CREATE PROCEDURE pay(p int) LANGUAGE plpgsql AS $$ BEGIN UPDATE orders SET paid = true WHERE id = p; INSERT INTO booking VALUES (p); END $$;
CREATE PROCEDURE cancel(p int) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM booking WHERE orders = p; UPDATE orders SET paid = false WHERE id = p; END $$;
-- app: never-in-both
-- why: One branch puts a person on one list, the other on the other.
-- allow: never_both no
-- ban: never_both no
CREATE TABLE allowed (id int PRIMARY KEY);
CREATE TABLE banned (id int PRIMARY KEY);
CREATE ASSERTION never_both CHECK (NOT EXISTS (SELECT 1 FROM allowed a JOIN banned b ON a.id = b.id));
CREATE PROCEDURE allow(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO allowed VALUES (p) ON CONFLICT DO NOTHING; END;
CREATE PROCEDURE ban(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO banned VALUES (p) ON CONFLICT DO NOTHING; END;
-- app: never-in-both-removed
-- why: Only rows go.
-- pardon: never_both yes
-- forget: never_both yes
CREATE TABLE allowed (id int PRIMARY KEY);
CREATE TABLE banned (id int PRIMARY KEY);
CREATE ASSERTION never_both CHECK (NOT EXISTS (SELECT 1 FROM allowed a JOIN banned b ON a.id = b.id));
CREATE PROCEDURE pardon(p int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM banned WHERE id = p; END;
CREATE PROCEDURE forget(p int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM allowed WHERE id = p; END;
-- app: both-or-neither
-- why: Two rows of one table: each branch turns another one on.
-- turn_on: alike no
CREATE TABLE lamp (id int PRIMARY KEY, lit boolean NOT NULL);
CREATE ASSERTION alike CHECK (EXISTS (SELECT 1 FROM lamp WHERE lit AND id = 1) = EXISTS (SELECT 1 FROM lamp WHERE lit AND id = 2));
CREATE PROCEDURE turn_on() LANGUAGE SQL BEGIN ATOMIC UPDATE lamp SET lit = NOT lit; END;
-- app: one-of-two-facts
-- why: Of rows that are lit and rows that are not, each branch changes another one.
-- turn: mixed no
CREATE TABLE lamp (id int PRIMARY KEY, lit boolean NOT NULL);
CREATE ASSERTION mixed CHECK (EXISTS (SELECT 1 FROM lamp WHERE lit) AND EXISTS (SELECT 1 FROM lamp WHERE NOT lit));
CREATE PROCEDURE turn(p int, q boolean) LANGUAGE SQL BEGIN ATOMIC UPDATE lamp SET lit = q WHERE id = p; END;
-- app: tree-without-circles
-- why: One branch puts a under b, the other b under a.
-- move: acyclic no
CREATE TABLE node (id int PRIMARY KEY, parent int);
CREATE ASSERTION acyclic CHECK (NOT EXISTS (WITH RECURSIVE up(id, at) AS (SELECT id, parent FROM node UNION SELECT u.id, n.parent FROM up u JOIN node n ON n.id = u.at) SELECT 1 FROM up WHERE id = at));
CREATE PROCEDURE move(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE node SET parent = q WHERE id = p; END;
-- app: highest-bounded
-- why: It is a bound of each row; what is set is valid by itself.
-- assign: top yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE ASSERTION top CHECK ((SELECT max(n) FROM t) <= 100);
CREATE PROCEDURE assign(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = 7 WHERE id = p; END;
-- app: highest-bounded-raised
-- why: Of 99, each branch adds 1 to one row.
-- raise: top no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE ASSERTION top CHECK ((SELECT max(n) FROM t) <= 100);
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: copy-of-the-name
-- why: Each branch copies the name that it sees; the parent has been renamed meanwhile.
-- rename: same_name no
-- add: same_name no
CREATE TABLE author (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE book (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), author int NOT NULL REFERENCES author (id), author_name text NOT NULL);
CREATE ASSERTION same_name CHECK (NOT EXISTS (SELECT 1 FROM book b JOIN author a ON a.id = b.author WHERE a.name <> b.author_name));
CREATE PROCEDURE rename(p int, q text) LANGUAGE plpgsql AS $$ BEGIN UPDATE author SET name = q WHERE id = p; UPDATE book SET author_name = q WHERE author = p; END $$;
CREATE PROCEDURE add(p int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO book (author, author_name) SELECT id, name FROM author WHERE id = p; END $$;
-- app: copy-of-a-name-that-stays
-- why: Nobody renames anybody.
-- add: same_name yes
CREATE TABLE author (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE book (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), author int NOT NULL REFERENCES author (id), author_name text NOT NULL);
CREATE ASSERTION same_name CHECK (NOT EXISTS (SELECT 1 FROM book b JOIN author a ON a.id = b.author WHERE a.name <> b.author_name));
CREATE PROCEDURE add(p int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO book (author, author_name) SELECT id, name FROM author WHERE id = p; END $$;
-- app: more-seats-than-tickets
-- why: Of one free seat, each branch sells it.
-- sell: fits no
-- enlarge: fits yes
CREATE TABLE show (id int PRIMARY KEY, seats int NOT NULL);
CREATE TABLE ticket (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), show int NOT NULL REFERENCES show (id));
CREATE ASSERTION fits CHECK (NOT EXISTS (SELECT 1 FROM show s WHERE s.seats < (SELECT count(*) FROM ticket t WHERE t.show = s.id)));
CREATE PROCEDURE sell(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO ticket (show) VALUES (p); END;
CREATE PROCEDURE enlarge(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE show SET seats = seats + 10 WHERE id = p; END;
-- app: read-only
-- why: Whoever writes nothing breaks nothing.
-- look: none_below yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE ASSERTION none_below CHECK (NOT EXISTS (SELECT 1 FROM t WHERE n < 0));
CREATE PROCEDURE look(p int, OUT q int) LANGUAGE plpgsql AS $$ BEGIN SELECT n INTO q FROM t WHERE id = p; END $$;
-- app: another-table
-- why: The assertion does not speak of the table that is written.
-- add: none_below yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL);
CREATE TABLE u (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), n int NOT NULL);
CREATE ASSERTION none_below CHECK (NOT EXISTS (SELECT 1 FROM t WHERE n < 0));
CREATE PROCEDURE add(q int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO u (n) VALUES (q); END;
