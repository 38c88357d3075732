CREATE UNIQUE INDEX customer_email ON customer (email);
CREATE INDEX purchase_of ON purchase (customer_id);
INSERT INTO customer (email) VALUES ('Ann@example.org'), ('bob@example.org');
INSERT INTO purchase (customer_id, amount, note) SELECT id, 10 * id, 'welcome' FROM customer;
