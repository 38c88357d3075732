ALTER TABLE purchase RENAME COLUMN note TO remark;
ALTER TABLE purchase RENAME TO bought;
ALTER TABLE customer ADD COLUMN nickname text;
ALTER TABLE customer DROP COLUMN joined;
CREATE VIEW balance AS SELECT c.email, sum(b.amount + b.vat) AS total FROM customer c JOIN bought b ON b.customer_id = c.id GROUP BY c.email;
UPDATE customer SET nickname = split_part(email, '@', 1);
