-- app: page-with-a-chosen-slug
-- why: Two authors choose one slug; the row's own id is drawn and nobody else's.
-- publish: page_slug_key no
-- publish: page_pkey yes
-- retitle: page_slug_key yes
CREATE TABLE page (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), slug text NOT NULL UNIQUE, title text NOT NULL);
CREATE PROCEDURE publish(s text, q text) LANGUAGE SQL BEGIN ATOMIC INSERT INTO page (slug, title) VALUES (s, q); END;
CREATE PROCEDURE retitle(p uuid, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE page SET title = q WHERE id = p; END;
-- app: page-with-a-drawn-suffix
-- why: Two slugs end in two UUIDs of one length, and so differ whatever stands before.
-- publish: page_slug_key yes
CREATE TABLE page (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slug text NOT NULL UNIQUE);
CREATE PROCEDURE publish(s text) LANGUAGE SQL BEGIN ATOMIC INSERT INTO page (slug) VALUES (s || '-' || gen_random_uuid()::text); END;
-- app: account-soft-deleted
-- why: One branch restores an account under an address, the other registers that address; who is marked as deleted leaves the index.
-- register: account_live no
-- restore: account_live no
-- erase: account_live yes
CREATE TABLE account (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), email text NOT NULL, deleted boolean NOT NULL DEFAULT false);
CREATE UNIQUE INDEX account_live ON account (email) WHERE NOT deleted;
CREATE PROCEDURE register(e text) LANGUAGE SQL BEGIN ATOMIC INSERT INTO account (email) VALUES (e); END;
CREATE PROCEDURE restore(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE account SET deleted = false WHERE id = p; END;
CREATE PROCEDURE erase(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE account SET deleted = true WHERE id = p; END;
-- app: project-of-a-tenant
-- why: Two branches of one tenant choose one name; the number is drawn, and with it the pair of tenant and number.
-- create_project: project_name no
-- create_project: project_pkey yes
CREATE TABLE project (tenant int NOT NULL, no bigint GENERATED ALWAYS AS IDENTITY, name text NOT NULL, PRIMARY KEY (tenant, no), CONSTRAINT project_name UNIQUE (tenant, name));
CREATE PROCEDURE create_project(t int, q text) LANGUAGE SQL BEGIN ATOMIC INSERT INTO project (tenant, name) VALUES (t, q); END;
-- app: vote-once
-- why: A second vote of one voter changes nothing, so two branches bring one row; who takes a vote back frees its key.
-- vote: vote_pkey yes
-- take_back: vote_pkey yes
CREATE TABLE vote (poll int, voter int, PRIMARY KEY (poll, voter));
CREATE PROCEDURE vote(p int, v int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO vote VALUES (p, v) ON CONFLICT DO NOTHING; END;
CREATE PROCEDURE take_back(p int, v int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM vote WHERE poll = p AND voter = v; END;
-- app: votes-counted
-- why: Each vote is a new row and adds one; merged there are as many more rows as were added.
-- vote: counted yes
CREATE TABLE poll (id int PRIMARY KEY, votes int NOT NULL);
CREATE TABLE vote (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), poll int NOT NULL REFERENCES poll (id));
CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM poll p WHERE p.votes <> (SELECT count(*) FROM vote v WHERE v.poll = p.id)));
CREATE PROCEDURE vote(p int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO vote (poll) VALUES (p); UPDATE poll SET votes = votes + 1 WHERE id = p; END $$;
-- app: votes-counted-of-each-voter-once
-- why: Both branches find that the voter has not voted and add one; merged there is one row and two were added.
-- vote: counted no
CREATE TABLE poll (id int PRIMARY KEY, votes int NOT NULL);
CREATE TABLE vote (poll int REFERENCES poll (id), voter int, PRIMARY KEY (poll, voter));
CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM poll p WHERE p.votes <> (SELECT count(*) FROM vote v WHERE v.poll = p.id)));
CREATE PROCEDURE vote(p int, w int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO vote VALUES (p, w) ON CONFLICT DO NOTHING;
  IF FOUND THEN UPDATE poll SET votes = votes + 1 WHERE id = p; END IF; END $$;
-- app: job-taken-by-a-worker
-- why: Whoever writes the state writes the worker with it, so the later of two writes leaves a pair that was valid.
-- take: c yes
-- give_back: c yes
CREATE TABLE job (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), state text NOT NULL, worker int, CONSTRAINT c CHECK (state <> 'taken' OR worker IS NOT NULL));
CREATE PROCEDURE take(p uuid, w int) LANGUAGE SQL BEGIN ATOMIC UPDATE job SET state = 'taken', worker = w WHERE id = p AND state = 'new'; END;
CREATE PROCEDURE give_back(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE job SET state = 'new', worker = NULL WHERE id = p; END;
-- app: stock-with-reservations
-- why: Of one piece that is free each branch reserves it; who brings goods or releases a reservation leaves more that is free.
-- reserve: free no
-- restock: free yes
-- release: free yes
-- reserve: none_below yes
-- release: none_below no
CREATE TABLE stock (id int PRIMARY KEY, on_hand int NOT NULL, reserved int NOT NULL, CONSTRAINT free CHECK (reserved <= on_hand), CONSTRAINT none_below CHECK (reserved >= 0));
CREATE PROCEDURE reserve(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE stock SET reserved = reserved + 1 WHERE id = p; END;
CREATE PROCEDURE restock(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE stock SET on_hand = on_hand + 100 WHERE id = p; END;
CREATE PROCEDURE release(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE stock SET reserved = reserved - 1 WHERE id = p; END;
-- app: stock-shipped-from-reservations
-- why: Both go down by one, so what is free stays; but of one piece on hand each branch ships it.
-- ship: free yes
-- ship: on_hand_left no
CREATE TABLE stock (id int PRIMARY KEY, on_hand int NOT NULL, reserved int NOT NULL, CONSTRAINT free CHECK (reserved <= on_hand), CONSTRAINT on_hand_left CHECK (on_hand >= 0));
CREATE PROCEDURE ship(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE stock SET on_hand = on_hand - 1, reserved = reserved - 1 WHERE id = p; END;
-- app: money-moved-between-accounts
-- why: Of 10, each branch pays 6 to somebody; who only receives takes from nobody.
-- transfer: solvent no
-- receive: solvent yes
CREATE TABLE account (id int PRIMARY KEY, balance numeric(12, 2) NOT NULL, CONSTRAINT solvent CHECK (balance >= 0));
CREATE PROCEDURE transfer(a int, b int, q numeric(12, 2)) LANGUAGE plpgsql AS $$ BEGIN
  IF q <= 0 THEN RAISE EXCEPTION 'nothing to move'; END IF;
  UPDATE account SET balance = balance - q WHERE id = a; UPDATE account SET balance = balance + q WHERE id = b; END $$;
CREATE PROCEDURE receive(b int, q numeric(12, 2)) LANGUAGE plpgsql AS $$ BEGIN
  IF q <= 0 THEN RAISE EXCEPTION 'nothing to receive'; END IF;
  UPDATE account SET balance = balance + q WHERE id = b; END $$;
-- app: files-within-a-quota
-- why: Of one file less than allowed, each branch uploads one; who removes a file or is allowed more leaves more room.
-- upload: within no
-- remove: within yes
-- allow_more: within yes
CREATE TABLE person (id int PRIMARY KEY, quota int NOT NULL);
CREATE TABLE file (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), person int NOT NULL REFERENCES person (id));
CREATE ASSERTION within CHECK (NOT EXISTS (SELECT 1 FROM person p WHERE p.quota < (SELECT count(*) FROM file f WHERE f.person = p.id)));
CREATE PROCEDURE upload(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO file (person) VALUES (p); END;
CREATE PROCEDURE remove(f uuid) LANGUAGE SQL BEGIN ATOMIC DELETE FROM file WHERE id = f; END;
CREATE PROCEDURE allow_more(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE person SET quota = quota + 10 WHERE id = p; END;
-- app: bytes-within-a-plan
-- why: Of (5, 10) one branch uses 4 more and the other sets the plan to 6; who frees bytes leaves more room.
-- store: within no
-- change_plan: within no
CREATE TABLE person (id int PRIMARY KEY, used bigint NOT NULL, plan bigint NOT NULL, CONSTRAINT within CHECK (used <= plan));
CREATE PROCEDURE store(p int, q bigint) LANGUAGE plpgsql AS $$ BEGIN
  IF q <= 0 THEN RAISE EXCEPTION 'nothing to store'; END IF; UPDATE person SET used = used + q WHERE id = p; END $$;
CREATE PROCEDURE change_plan(p int, q bigint) LANGUAGE SQL BEGIN ATOMIC UPDATE person SET plan = q WHERE id = p; END;
-- app: calendar-with-cancellations
-- why: Two branches book one hour; what is cancelled stands in nobody's way.
-- book: no_overlap no
-- cancel: no_overlap yes
CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE TABLE booking (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), room int NOT NULL, during tsrange NOT NULL, cancelled boolean NOT NULL DEFAULT false,
  CONSTRAINT no_overlap EXCLUDE USING gist (room WITH =, during WITH &&) WHERE (NOT cancelled));
CREATE PROCEDURE book(r int, f timestamp, u timestamp) LANGUAGE SQL BEGIN ATOMIC INSERT INTO booking (room, during) VALUES (r, tsrange(f, u)); END;
CREATE PROCEDURE cancel(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE booking SET cancelled = true WHERE id = p; END;
-- app: meeting-put-off
-- why: Whoever moves a meeting writes begin and end together.
-- move: c yes
CREATE TABLE meeting (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), begins timestamp NOT NULL, ends timestamp NOT NULL, CONSTRAINT c CHECK (begins < ends));
CREATE PROCEDURE move(p uuid, f timestamp, u timestamp) LANGUAGE SQL BEGIN ATOMIC UPDATE meeting SET begins = f, ends = u WHERE id = p; END;
-- app: meeting-cut-at-both-ends
-- why: Of 9 to 11, one branch begins it at 10 and the other ends it at 10.
-- begin_later: c no
-- end_earlier: c no
CREATE TABLE meeting (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), begins timestamp NOT NULL, ends timestamp NOT NULL, CONSTRAINT c CHECK (begins < ends));
CREATE PROCEDURE begin_later(p uuid, f timestamp) LANGUAGE SQL BEGIN ATOMIC UPDATE meeting SET begins = f WHERE id = p; END;
CREATE PROCEDURE end_earlier(p uuid, u timestamp) LANGUAGE SQL BEGIN ATOMIC UPDATE meeting SET ends = u WHERE id = p; END;
-- app: order-through-its-states
-- why: The state is one of the list whoever wrote it last, and each step is checked where it is made.
-- advance: known yes
-- drop_it: known yes
CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), state text NOT NULL, CONSTRAINT known CHECK (state IN ('new', 'paid', 'sent', 'dropped')));
CREATE PROCEDURE advance(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE orders SET state = CASE state WHEN 'new' THEN 'paid' ELSE 'sent' END WHERE id = p AND state IN ('new', 'paid'); END;
CREATE PROCEDURE drop_it(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE orders SET state = 'dropped' WHERE id = p AND state = 'new'; END;
-- app: order-shipped-and-cancelled
-- why: Each branch sees the other flag clear and sets its own.
-- ship: c no
-- cancel: c no
CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), shipped boolean NOT NULL, cancelled boolean NOT NULL, CONSTRAINT c CHECK (NOT (shipped AND cancelled)));
CREATE PROCEDURE ship(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE orders SET shipped = true WHERE id = p AND NOT cancelled; END;
CREATE PROCEDURE cancel(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE orders SET cancelled = true WHERE id = p AND NOT shipped; END;
-- app: revisions-of-a-document
-- why: Each change adds one revision, which is a new row, and one to the count.
-- edit: revision_pkey yes
-- edit: counted yes
CREATE TABLE doc (id int PRIMARY KEY, revisions int NOT NULL);
CREATE TABLE revision (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, doc int NOT NULL);
CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM doc d WHERE d.revisions <> (SELECT count(*) FROM revision r WHERE r.doc = d.id)));
CREATE PROCEDURE edit(p int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO revision (doc) VALUES (p); UPDATE doc SET revisions = revisions + 1 WHERE id = p; END $$;
-- app: version-for-optimists
-- why: The version only goes up.
-- save: c yes
CREATE TABLE doc (id int PRIMARY KEY, body text NOT NULL, version int NOT NULL, CONSTRAINT c CHECK (version > 0));
CREATE PROCEDURE save(p int, v int, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE doc SET body = q, version = version + 1 WHERE id = p AND version = v; END;
-- app: comments-with-replies
-- why: Who answers a comment that goes goes with it; a depth is checked where the comment is made and never changes.
-- answer: comment_parent_fkey yes
-- remove: comment_parent_fkey yes
-- answer: c yes
CREATE TABLE comment (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent bigint REFERENCES comment (id) ON DELETE CASCADE, depth int NOT NULL, CONSTRAINT c CHECK (depth BETWEEN 0 AND 20));
CREATE PROCEDURE answer(p bigint, d int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO comment (parent, depth) VALUES (p, d); END;
CREATE PROCEDURE remove(p bigint) LANGUAGE SQL BEGIN ATOMIC DELETE FROM comment WHERE id = p; END;
-- app: roster-of-shifts
-- why: Two branches put one worker on one day; who drops a shift frees the pair.
-- assign: shift_once no
-- hand_over: shift_once no
-- drop_shift: shift_once yes
CREATE TABLE shift (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), worker int NOT NULL, day date NOT NULL, CONSTRAINT shift_once UNIQUE (worker, day));
CREATE PROCEDURE assign(w int, d date) LANGUAGE SQL BEGIN ATOMIC INSERT INTO shift (worker, day) VALUES (w, d); END;
CREATE PROCEDURE hand_over(p uuid, w int) LANGUAGE SQL BEGIN ATOMIC UPDATE shift SET worker = w WHERE id = p; END;
CREATE PROCEDURE drop_shift(p uuid) LANGUAGE SQL BEGIN ATOMIC DELETE FROM shift WHERE id = p; END;
-- app: tags-in-an-array
-- why: Each branch appends or removes elements; none of them appends the forbidden one, or it had failed by itself.
-- tag: c yes
-- untag: c yes
CREATE TABLE photo (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), tags text[] NOT NULL, CONSTRAINT c CHECK (NOT ('banned' = ANY (tags))));
CREATE PROCEDURE tag(p uuid, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE photo SET tags = array_append(tags, q) WHERE id = p; END;
CREATE PROCEDURE untag(p uuid, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE photo SET tags = array_remove(tags, q) WHERE id = p; END;
-- app: tags-at-most-three
-- why: Of two tags, each branch appends one.
-- tag: c no
CREATE TABLE photo (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), tags text[] NOT NULL, CONSTRAINT c CHECK (cardinality(tags) <= 3));
CREATE PROCEDURE tag(p uuid, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE photo SET tags = array_append(tags, q) WHERE id = p; END;
-- app: settings-in-a-document
-- why: jsonb_set() of a document that is there and a value that is there is one; a value that is not there fails where it is set.
-- choose_theme: person.settings not null yes
CREATE TABLE person (id int PRIMARY KEY, settings jsonb NOT NULL);
CREATE PROCEDURE choose_theme(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE person SET settings = jsonb_set(settings, '{theme}', '"dark"') WHERE id = p; END;
-- app: discount-that-may-be-unknown
-- why: NULL satisfies a CHECK, and whatever is set was valid by itself.
-- forget: c yes
-- assign: c yes
CREATE TABLE item (id int PRIMARY KEY, discount int, CONSTRAINT c CHECK (discount BETWEEN 0 AND 100));
CREATE PROCEDURE forget(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE item SET discount = NULL WHERE id = p; END;
CREATE PROCEDURE assign(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE item SET discount = q WHERE id = p; END;
-- app: discount-raised-at-both-ends
-- why: Of 60, each branch adds 30; a NULL stays NULL.
-- raise: c no
CREATE TABLE item (id int PRIMARY KEY, discount int, CONSTRAINT c CHECK (discount BETWEEN 0 AND 100));
CREATE PROCEDURE raise(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE item SET discount = discount + 30 WHERE id = p; END;
-- app: locker-left
-- why: A key with a NULL in it equals no other; who moves in may meet another who does.
-- leave_it: locker_once yes
-- move_in: locker_once no
CREATE TABLE locker (id int PRIMARY KEY, hall int NOT NULL, guest int, CONSTRAINT locker_once UNIQUE (hall, guest));
CREATE PROCEDURE leave_it(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE locker SET guest = NULL WHERE id = p; END;
CREATE PROCEDURE move_in(p int, g int) LANGUAGE SQL BEGIN ATOMIC UPDATE locker SET guest = g WHERE id = p; END;
-- app: invoices-without-gaps
-- why: Both branches see one highest number and take the next; merged there is a number twice, and more rows than the highest says.
-- bill: invoice_pkey no
-- bill: gapless no
CREATE TABLE invoice (no int PRIMARY KEY);
CREATE ASSERTION gapless CHECK ((SELECT coalesce(max(no), 0) FROM invoice) = (SELECT count(*) FROM invoice));
CREATE PROCEDURE bill() LANGUAGE plpgsql AS $$ DECLARE k int; BEGIN
  SELECT coalesce(max(no), 0) + 1 INTO k FROM invoice; INSERT INTO invoice VALUES (k); END $$;
-- app: coupon-on-one-order
-- why: Two orders take one coupon; an order without one has NULL there, and a coupon that is given back is free.
-- order_with: orders_coupon_key no
-- order_without: orders_coupon_key yes
-- give_back: orders_coupon_key yes
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, coupon text UNIQUE);
CREATE PROCEDURE order_with(c text) LANGUAGE SQL BEGIN ATOMIC INSERT INTO orders (coupon) VALUES (c); END;
CREATE PROCEDURE order_without() LANGUAGE SQL BEGIN ATOMIC INSERT INTO orders (coupon) VALUES (NULL); END;
CREATE PROCEDURE give_back(p bigint) LANGUAGE SQL BEGIN ATOMIC UPDATE orders SET coupon = NULL WHERE id = p; END;
-- app: expenses-within-a-budget
-- why: Of 100 that are left, each branch spends 60; a new expense is checked by itself, and a larger budget leaves more.
-- spend: within no
-- grant_more: within yes
-- spend: positive yes
CREATE TABLE dept (id int PRIMARY KEY, budget int NOT NULL);
CREATE TABLE expense (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), dept int NOT NULL REFERENCES dept (id), amount int NOT NULL, CONSTRAINT positive CHECK (amount > 0));
CREATE ASSERTION within CHECK (NOT EXISTS (SELECT 1 FROM dept d WHERE d.budget < (SELECT coalesce(sum(e.amount), 0) FROM expense e WHERE e.dept = d.id)));
CREATE PROCEDURE spend(d int, q int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO expense (dept, amount) VALUES (d, q); END;
CREATE PROCEDURE grant_more(d int) LANGUAGE SQL BEGIN ATOMIC UPDATE dept SET budget = budget + 1000 WHERE id = d; END;
-- app: ledger-of-two-sides
-- why: The two lines of a posting are new and cancel each other.
-- post: balanced yes
-- post: line_posting_fkey yes
CREATE TABLE posting (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
CREATE TABLE line (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), posting uuid NOT NULL REFERENCES posting (id), amount int NOT NULL);
CREATE ASSERTION balanced CHECK (NOT EXISTS (SELECT 1 FROM posting p WHERE (SELECT coalesce(sum(l.amount), 0) FROM line l WHERE l.posting = p.id) <> 0));
CREATE PROCEDURE post(q int) LANGUAGE plpgsql AS $$ DECLARE k uuid; BEGIN
  INSERT INTO posting DEFAULT VALUES RETURNING id INTO k;
  INSERT INTO line (posting, amount) VALUES (k, q); INSERT INTO line (posting, amount) VALUES (k, -q); END $$;
-- app: positions-in-a-waiting-list
-- why: One branch moves the third up, the other the first down; both are second.
-- move_up: waiting_place_key no
-- move_down: waiting_place_key no
CREATE TABLE waiting (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), place int NOT NULL UNIQUE);
CREATE PROCEDURE move_up(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE waiting SET place = place - 1 WHERE id = p; END;
CREATE PROCEDURE move_down(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE waiting SET place = place + 1 WHERE id = p; END;
-- app: one-main-address
-- why: Each branch makes another address the main one; a new one that is not the main one is not in the index.
-- make_main: address_main no
-- add: address_main yes
CREATE TABLE address (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), person int NOT NULL, main boolean NOT NULL);
CREATE UNIQUE INDEX address_main ON address (person) WHERE main;
CREATE PROCEDURE make_main(p uuid) LANGUAGE SQL BEGIN ATOMIC UPDATE address SET main = true WHERE id = p; END;
CREATE PROCEDURE add(p int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO address (person, main) VALUES (p, false); END;
-- app: volume-with-a-stop
-- why: The least of anything and 10 is at most 10, whatever the row has become.
-- louder: c yes
CREATE TABLE radio (id int PRIMARY KEY, volume int NOT NULL, CONSTRAINT c CHECK (volume <= 10));
CREATE PROCEDURE louder(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE radio SET volume = least(volume + 1, 10) WHERE id = p; END;
-- app: tokens-of-a-client
-- why: Of one token each branch takes it.
-- take: c no
CREATE TABLE bucket (id int PRIMARY KEY, tokens int NOT NULL, CONSTRAINT c CHECK (tokens >= 0));
CREATE PROCEDURE take(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE bucket SET tokens = tokens - 1 WHERE id = p AND tokens > 0; END;
CREATE PROCEDURE fill(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE bucket SET tokens = greatest(tokens, 10) WHERE id = p; END;
-- app: minutes-of-a-clock
-- why: From 30, one branch takes 1 and has 29, the other sets 0; taken from that it is -1.
-- turn: c no
-- reset: c no
CREATE TABLE clock (id int PRIMARY KEY, minute int NOT NULL, CONSTRAINT c CHECK (minute BETWEEN 0 AND 59));
CREATE PROCEDURE turn(p int, q int) LANGUAGE SQL BEGIN ATOMIC UPDATE clock SET minute = (minute + q) % 60 WHERE id = p; END;
CREATE PROCEDURE reset(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE clock SET minute = 0 WHERE id = p; END;
-- app: last-message-of-a-room
-- why: The later of two times is kept, and the room was opened before either.
-- say: c yes
-- say: message_room_fkey yes
CREATE TABLE room (id int PRIMARY KEY, opened timestamp NOT NULL, last timestamp NOT NULL, CONSTRAINT c CHECK (last >= opened));
CREATE TABLE message (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), room int NOT NULL REFERENCES room (id));
CREATE PROCEDURE say(p int, t timestamp) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO message (room) VALUES (p); UPDATE room SET last = greatest(last, t) WHERE id = p; END $$;
-- app: followers-counted-and-lost
-- why: Both branches remove one follower and take one each; who follows brings one row and adds one.
-- unfollow: counted no
CREATE TABLE person (id int PRIMARY KEY, followers int NOT NULL);
CREATE TABLE follow (id int PRIMARY KEY, whom int NOT NULL REFERENCES person (id));
CREATE ASSERTION counted CHECK (NOT EXISTS (SELECT 1 FROM person p WHERE p.followers <> (SELECT count(*) FROM follow f WHERE f.whom = p.id)));
CREATE PROCEDURE unfollow(f int) LANGUAGE plpgsql AS $$ DECLARE w int; BEGIN
  DELETE FROM follow WHERE id = f RETURNING whom INTO w;
  IF FOUND THEN UPDATE person SET followers = followers - 1 WHERE id = w; END IF; END $$;
-- app: seat-held-for-a-show
-- why: Two branches hold one seat; who lets it go frees it.
-- hold: hold_pkey no
-- let_go: hold_pkey yes
CREATE TABLE hold (show int, seat int, guest int NOT NULL, PRIMARY KEY (show, seat));
CREATE PROCEDURE hold(s int, n int, g int) LANGUAGE SQL BEGIN ATOMIC INSERT INTO hold VALUES (s, n, g); END;
CREATE PROCEDURE let_go(s int, n int) LANGUAGE SQL BEGIN ATOMIC DELETE FROM hold WHERE show = s AND seat = n; END;
-- app: value-written-down
-- why: Half of what is not negative is not negative, however often it is halved.
-- write_down: c yes
CREATE TABLE asset (id int PRIMARY KEY, value int NOT NULL, CONSTRAINT c CHECK (value >= 0));
CREATE PROCEDURE write_down(p int) LANGUAGE SQL BEGIN ATOMIC UPDATE asset SET value = value / 2 WHERE id = p; END;
-- app: task-put-into-the-archive
-- why: Both branches find the task and copy it under its own id.
-- keep: archive_pkey no
CREATE TABLE task (id int PRIMARY KEY, body text NOT NULL);
CREATE TABLE archive (id int PRIMARY KEY, body text NOT NULL);
CREATE PROCEDURE keep(p int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO archive SELECT id, body FROM task WHERE id = p; DELETE FROM task WHERE id = p; END $$;
-- app: task-put-into-the-archive-once
-- why: The second copy of a task is none.
-- keep: archive_pkey yes
CREATE TABLE task (id int PRIMARY KEY, body text NOT NULL);
CREATE TABLE archive (id int PRIMARY KEY, body text NOT NULL);
CREATE PROCEDURE keep(p int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO archive SELECT id, body FROM task WHERE id = p ON CONFLICT (id) DO NOTHING; DELETE FROM task WHERE id = p; END $$;
-- app: payment-in-two-lines
-- why: What one account gives the other gets, and the lines are new; the account's own balance may fall below zero in two branches.
-- pay: line_pkey yes
-- pay: solvent no
CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL, CONSTRAINT solvent CHECK (balance >= 0));
CREATE TABLE line (id uuid DEFAULT gen_random_uuid(), account int NOT NULL REFERENCES account (id), amount int NOT NULL, PRIMARY KEY (account, id));
CREATE PROCEDURE pay(a int, b int, q int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO line (account, amount) VALUES (a, -q), (b, q);
  UPDATE account SET balance = balance - q WHERE id = a; UPDATE account SET balance = balance + q WHERE id = b; END $$;
-- app: row-stamped-by-a-trigger
-- why: The trigger writes the time of the transaction, which is never NULL.
-- rename: person.changed not null yes
CREATE TABLE person (id int PRIMARY KEY, name text NOT NULL, changed timestamptz NOT NULL);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.changed := now(); RETURN NEW; END $$;
CREATE TRIGGER stamped BEFORE UPDATE ON person FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE PROCEDURE rename(p int, q text) LANGUAGE SQL BEGIN ATOMIC UPDATE person SET name = q WHERE id = p; END;
