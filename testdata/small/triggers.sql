-- app: audited
-- why: The audit's rows have numbers of their own, and nobody changes them.
-- raise: audit_pkey yes
-- raise: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE TABLE audit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what int);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (what) VALUES (NEW.id); RETURN NEW; END $$;
CREATE TRIGGER noted AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION note();
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = n + 1 WHERE id = p; END;
-- app: trigger-takes
-- why: Each row that comes takes one from the stock.
-- sell: c no
CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE TABLE sale (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item int NOT NULL);
CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE stock SET n = n - 1 WHERE id = NEW.item; RETURN NEW; END $$;
CREATE TRIGGER taken AFTER INSERT ON sale FOR EACH ROW EXECUTE FUNCTION take();
CREATE PROCEDURE sell(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO sale (item) VALUES (p); END;
-- app: trigger-clamps
-- why: Whatever is written, the row gets at least zero, and nobody takes from it later.
-- assign: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE FUNCTION clamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := greatest(NEW.n, 0); RETURN NEW; END $$;
CREATE TRIGGER clamped BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION clamp();
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE t SET n = q WHERE id = p; END;
-- app: trigger-of-a-trigger
-- why: The second trigger takes what the first one's row sets off.
-- begin_it: c no
CREATE TABLE a (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item int NOT NULL);
CREATE TABLE b (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item int NOT NULL);
CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE FUNCTION fa() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO b (item) VALUES (NEW.item); RETURN NEW; END $$;
CREATE FUNCTION fb() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE stock SET n = n - 1 WHERE id = NEW.item; RETURN NEW; END $$;
CREATE TRIGGER ga AFTER INSERT ON a FOR EACH ROW EXECUTE FUNCTION fa();
CREATE TRIGGER gb AFTER INSERT ON b FOR EACH ROW EXECUTE FUNCTION fb();
CREATE PROCEDURE begin_it(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO a (item) VALUES (p); END;
-- app: trigger-of-another-event
-- why: The trigger is of DELETE, and nobody deletes.
-- sell: c yes
CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE TABLE sale (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item int NOT NULL);
CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE stock SET n = n - 1 WHERE id = OLD.item; RETURN OLD; END $$;
CREATE TRIGGER taken AFTER DELETE ON sale FOR EACH ROW EXECUTE FUNCTION take();
CREATE PROCEDURE sell(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO sale (item) VALUES (p); END;
-- app: trigger-set-off-by-a-cascade
-- why: The children that go with their parent each take one.
-- close: c no
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id int PRIMARY KEY, dept int NOT NULL REFERENCES dept (id) ON DELETE CASCADE);
CREATE TABLE tally (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE tally SET n = n - 1 WHERE id = 1; RETURN OLD; END $$;
CREATE TRIGGER taken AFTER DELETE ON emp FOR EACH ROW EXECUTE FUNCTION take();
CREATE PROCEDURE close(p int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM dept WHERE id = p; END;
-- app: call-of-a-call-takes
-- why: Whoever calls what takes takes.
-- third: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE first(p int) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET n = n - 1 WHERE id = p; END $$;
CREATE PROCEDURE second(p int) LANGUAGE plpgsql AS $$ BEGIN CALL first(p); END $$;
CREATE PROCEDURE third(p int) LANGUAGE plpgsql AS $$ BEGIN IF p > 0 THEN CALL second(p); END IF; END $$;
-- app: recursion-takes
-- why: Each turn takes one.
-- down: c no
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE down(p int) LANGUAGE plpgsql AS $$ BEGIN
  IF p > 0 THEN UPDATE t SET n = n - 1 WHERE id = p; CALL down(p - 1); END IF; END $$;
-- app: recursion-adds
-- why: Each turn adds one, however many there are.
-- down: c yes
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, CONSTRAINT c CHECK (n >= 0));
CREATE PROCEDURE down(p int) LANGUAGE plpgsql AS $$ BEGIN
  IF p > 0 THEN UPDATE t SET n = n + 1 WHERE id = p; CALL down(p - 1); END IF; END $$;
