-- The online store of operation-partitioning.txt, figure 1.
CREATE TABLE shop (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE stock (item int PRIMARY KEY, quantity int NOT NULL CHECK (quantity >= 0));
CREATE TABLE cart_line (cart int, item int REFERENCES stock, quantity int NOT NULL, PRIMARY KEY (cart, item));
CREATE TABLE log (written timestamptz NOT NULL, line text NOT NULL);
