//! Conditions that one row decides (CHECK, NOT NULL, domains): everyday UPDATEs of such rows do what they do on PostgreSQL, on one shard and on
//! several, beside procedures of the same table.

use crate::conversation::compare;

const CONVERSATION: &str = r#"
CREATE TABLE k (id int PRIMARY KEY, a int, b int, CHECK (a <= b))
INSERT INTO k VALUES (1, 1, 5), (2, 2, 2), (3, NULL, 3)
UPDATE k SET a = 2 WHERE id = 1
UPDATE k SET a = 9 WHERE id = 1
UPDATE k SET b = 1 WHERE id = 2
UPDATE k SET a = a + 1, b = b + 1
UPDATE k SET a = b, b = a
UPDATE k SET a = b, b = a WHERE id = 2
UPDATE k SET b = greatest(a, 4)
SELECT * FROM k ORDER BY id
CREATE DOMAIN rating AS int CHECK (VALUE BETWEEN 1 AND 5)
CREATE TABLE product (id int PRIMARY KEY, nm text NOT NULL, stock int NOT NULL CHECK (stock >= 0), reserved int NOT NULL DEFAULT 0, stars rating, j jsonb NOT NULL DEFAULT '{}', total int)
INSERT INTO product (id, nm, stock, reserved, stars) VALUES (1, 'pen', 5, 7, 3), (2, 'ink', 0, 1, 5), (3, 'pad', 9, 2, NULL)
UPDATE product SET nm = CASE WHEN stock > 0 THEN 'in' ELSE 'out' END
UPDATE product SET nm = CASE WHEN stock > 0 THEN 'in' END
UPDATE product SET stock = stock - 4 WHERE id = 1
UPDATE product SET stock = stock - 4 WHERE id = 1
PREPARE sell AS UPDATE product SET stock = stock - $2 WHERE id = $1 RETURNING stock
EXECUTE sell(3, 4)
EXECUTE sell(3, 40)
UPDATE product SET stock = greatest(stock, reserved)
UPDATE product SET stock = reserved - stock
UPDATE product SET stars = least(stars + 1, 5)
UPDATE product SET j = jsonb_set(j, '{k}', to_jsonb(nm))
UPDATE product SET j = NULL WHERE id = 2
UPDATE product SET total = (SELECT sum(b) FROM k WHERE k.id <= 2) WHERE id = 1
SELECT id, nm, stock, reserved, stars, j, total FROM product ORDER BY id
INSERT INTO product (id, nm, stock) VALUES (1, 'pen', 1) ON CONFLICT (id) DO UPDATE SET stock = product.stock - excluded.stock * 4 RETURNING stock
INSERT INTO product (id, nm, stock) VALUES (1, 'pen', 9) ON CONFLICT (id) DO UPDATE SET stock = product.stock - excluded.stock RETURNING stock
CREATE PROCEDURE low(i int, x int) LANGUAGE plpgsql AS $$ BEGIN UPDATE k SET a = x WHERE id = i; END $$
CALL low(1, 1)
CALL low(1, 99)
UPDATE k SET b = a + 7 WHERE id = 1
UPDATE k SET b = least(b, 6)
UPDATE k SET b = 0 WHERE id = 1
CALL low(1, 6)
BEGIN
UPDATE k SET b = 20 WHERE id = 1
CALL low(1, 15)
UPDATE k SET b = 14 WHERE id = 1
ROLLBACK
SELECT * FROM k ORDER BY id
"#;

#[test]
fn everyday_updates_run() {
    compare(CONVERSATION);
}
