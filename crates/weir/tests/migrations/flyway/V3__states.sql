CREATE TYPE state AS ENUM ('open', 'paid', 'sent');
ALTER TABLE purchase ADD COLUMN state state NOT NULL DEFAULT 'open';
ALTER TABLE purchase ADD COLUMN vat numeric(10,2);
UPDATE purchase SET vat = round(amount * 0.19, 2), state = 'paid' WHERE amount > 10;
UPDATE purchase SET vat = 0 WHERE vat IS NULL;
ALTER TABLE purchase ALTER COLUMN vat SET NOT NULL, ADD CONSTRAINT vat_is_not_negative CHECK (vat >= 0);
