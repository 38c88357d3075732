-- TPC-W: what the keys and CHECKs of schema.sql cannot say. The specification declares none of it.

-- The card paid what the order costs.
CREATE ASSERTION paid_as_billed CHECK (NOT EXISTS (
    SELECT 1
      FROM orders
     WHERE o_total <> coalesce((SELECT sum(cx_xact_amt) FROM cc_xacts WHERE cx_o_id = o_id), 0)));

-- Nobody orders nothing.
CREATE ASSERTION order_has_lines CHECK (NOT EXISTS (
    SELECT 1
      FROM orders
     WHERE NOT EXISTS (SELECT 1 FROM order_line WHERE ol_o_id = o_id)));
