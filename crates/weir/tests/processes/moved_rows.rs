//! UPDATE of the columns by which a row is placed: it moves, with its keys, and everything is as on PostgreSQL.

use crate::conversation::compare;

const CONVERSATION: &str = r#"
CREATE TABLE desk (id int PRIMARY KEY, room int NOT NULL, owner text UNIQUE, n int NOT NULL DEFAULT 0 CHECK (n < 50))
COMMENT ON TABLE desk IS 'weir: partition by (room)'
CREATE TABLE lamp (id int PRIMARY KEY, desk int REFERENCES desk ON UPDATE CASCADE ON DELETE CASCADE)
INSERT INTO desk (id, room, owner) SELECT n, n % 4, 'o' || n FROM generate_series(1, 12) n
INSERT INTO lamp SELECT n, 1 + n % 12 FROM generate_series(1, 24) n
UPDATE desk SET room = 7 WHERE id = 1
UPDATE desk SET room = room + 1
UPDATE desk SET room = room + 1 WHERE id = 5 RETURNING id, room, owner
UPDATE desk SET room = room + 1 WHERE id < 5
UPDATE desk SET room = 3, owner = 'o2' WHERE id = 1
UPDATE desk SET room = 3, owner = 'new' WHERE id = 1
UPDATE desk SET room = 4, n = 60 WHERE id = 1
UPDATE desk SET room = NULL WHERE id = 1
INSERT INTO desk (id, room, owner) VALUES (1, 1, 'x')
INSERT INTO desk (id, room, owner) VALUES (13, 1, 'new')
INSERT INTO desk (id, room, owner) VALUES (13, 1, 'o1')
SELECT * FROM desk ORDER BY id
INSERT INTO lamp VALUES (30, 1), (31, 13)
UPDATE desk SET id = 100, room = 9 WHERE id = 1
SELECT id, desk FROM lamp WHERE desk = 100 ORDER BY id
DELETE FROM desk WHERE id = 100
SELECT count(*) FROM lamp
BEGIN
UPDATE desk SET room = room + 10 WHERE id < 8
SELECT id, room FROM desk ORDER BY id
SAVEPOINT s
UPDATE desk SET room = room + 1, n = n + 1 WHERE id < 8
DELETE FROM desk WHERE id = 2
UPDATE desk SET id = 2 WHERE id = 3
ROLLBACK TO s
UPDATE desk SET n = 5 WHERE room > 10
COMMIT
SELECT * FROM desk ORDER BY id
SELECT count(*) FROM lamp
INSERT INTO desk (id, room, owner) VALUES (4, 2, 'q') ON CONFLICT (id) DO UPDATE SET room = 77, owner = excluded.owner RETURNING id, room, owner
INSERT INTO desk (id, room, owner) VALUES (5, 2, 'q') ON CONFLICT (owner) DO UPDATE SET room = desk.room + 1 RETURNING id, room, owner
CREATE TABLE team (id int PRIMARY KEY)
CREATE TABLE player (team int REFERENCES team ON UPDATE CASCADE, number int, name text, PRIMARY KEY (team, number))
COMMENT ON TABLE player IS 'weir: partition by (team)'
INSERT INTO team VALUES (1), (2), (3), (4)
INSERT INTO player SELECT 1 + n % 4, n, 'p' || n FROM generate_series(1, 12) n
UPDATE player SET team = 2 WHERE team = 1 AND number = 4
UPDATE player SET team = 9 WHERE team = 1
UPDATE player SET team = 3 WHERE number IN (8, 12)
UPDATE team SET id = 20 WHERE id = 2
UPDATE team SET id = id + 100
SELECT * FROM player ORDER BY team, number
DELETE FROM team WHERE id = 101
DELETE FROM team WHERE id = 120
CREATE PROCEDURE change_room(d int, r int) LANGUAGE plpgsql AS $$ BEGIN UPDATE desk SET room = r WHERE id = d; UPDATE desk SET n = n + 1 WHERE id = d; END $$
CALL change_room(5, 4)
CALL change_room(6, 400)
CALL change_room(7, 401)
SELECT * FROM desk ORDER BY id
"#;

#[test]
fn they_are_where_their_values_say() {
    compare(CONVERSATION);
}
