-- TPC-C, clause 3.3.2: the twelve consistency conditions, and a thirteenth that they lack.
--
-- Each names the rows that would violate it, so that a violation can be shown, and is answered by index
-- lookups for each row that it asks about. PostgreSQL has no CREATE ASSERTION; what stands inside
-- CHECK (…) is an expression that it evaluates.

-- (1) A warehouse's year-to-date total is the sum of its districts'.
CREATE ASSERTION c_3_3_2_1 CHECK (NOT EXISTS (
    SELECT 1
      FROM warehouse
     WHERE w_ytd <> coalesce((SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id), 0)));

-- (2) The next order number follows the largest one in use, in ORDERS and in NEW_ORDER (if it has any).
CREATE ASSERTION c_3_3_2_2 CHECK (NOT EXISTS (
    SELECT 1
      FROM district
     WHERE d_next_o_id - 1 <> coalesce((SELECT max(o_id) FROM orders
                                         WHERE o_w_id = d_w_id AND o_d_id = d_id), 0)
        OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order
                                WHERE no_w_id = d_w_id AND no_d_id = d_id)));

-- (3) The numbers of a district's undelivered orders have no gap.
CREATE ASSERTION c_3_3_2_3 CHECK (NOT EXISTS (
    SELECT 1
      FROM district
     WHERE (SELECT max(no_o_id) - min(no_o_id) + 1 FROM new_order
             WHERE no_w_id = d_w_id AND no_d_id = d_id)
        <> (SELECT count(*) FROM new_order
             WHERE no_w_id = d_w_id AND no_d_id = d_id)));

-- (4) A district has as many order lines as its orders say.
CREATE ASSERTION c_3_3_2_4 CHECK (NOT EXISTS (
    SELECT 1
      FROM district
     WHERE coalesce((SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id), 0)
        <> (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)));

-- (5) An order has no carrier exactly as long as it is in NEW_ORDER.
CREATE ASSERTION c_3_3_2_5 CHECK (NOT EXISTS (
    SELECT 1
      FROM orders
     WHERE (o_carrier_id IS NULL)
        <> EXISTS (SELECT 1 FROM new_order
                    WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id)));

-- (6) An order has as many lines as it says.
CREATE ASSERTION c_3_3_2_6 CHECK (NOT EXISTS (
    SELECT 1
      FROM orders
     WHERE o_ol_cnt <> (SELECT count(*) FROM order_line
                         WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)));

-- (7) An order's lines have a delivery date exactly if it has a carrier.
CREATE ASSERTION c_3_3_2_7 CHECK (NOT EXISTS (
    SELECT 1
      FROM orders
     WHERE EXISTS (SELECT 1 FROM order_line
                    WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                      AND (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL))));

-- (8) A warehouse's year-to-date total is what was paid to it.
CREATE ASSERTION c_3_3_2_8 CHECK (NOT EXISTS (
    SELECT 1
      FROM warehouse
     WHERE w_ytd <> coalesce((SELECT sum(h_amount) FROM history WHERE h_w_id = w_id), 0)));

-- (9) And so is a district's.
CREATE ASSERTION c_3_3_2_9 CHECK (NOT EXISTS (
    SELECT 1
      FROM district
     WHERE d_ytd <> coalesce((SELECT sum(h_amount) FROM history
                               WHERE h_w_id = d_w_id AND h_d_id = d_id), 0)));

-- (10) A customer's balance is what was delivered less what was paid.
CREATE ASSERTION c_3_3_2_10 CHECK (NOT EXISTS (
    SELECT 1
      FROM customer
     WHERE c_balance
        <> coalesce((SELECT sum(ol_amount)
                       FROM orders
                       JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                      WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
                        AND ol_delivery_d IS NOT NULL), 0)
         - coalesce((SELECT sum(h_amount) FROM history
                      WHERE h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id), 0)));

-- (11) Orders less undelivered orders are the 2,100 delivered ones of the population and those that Delivery
-- has delivered since. (As the clause words it, without the sum, it holds until the first Delivery.)
CREATE ASSERTION c_3_3_2_11 CHECK (NOT EXISTS (
    SELECT 1
      FROM district
     WHERE (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
         - (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
        <> 2100 + coalesce((SELECT sum(c_delivery_cnt) FROM customer
                             WHERE c_w_id = d_w_id AND c_d_id = d_id), 0)));

-- (12) Balance and payments of a customer are together what was delivered.
CREATE ASSERTION c_3_3_2_12 CHECK (NOT EXISTS (
    SELECT 1
      FROM customer
     WHERE c_balance + c_ytd_payment
        <> coalesce((SELECT sum(ol_amount)
                       FROM orders
                       JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                      WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
                        AND ol_delivery_d IS NOT NULL), 0)));

-- (13) No condition of the clause reads STOCK, so a lost update of it would pass them all. This one sees it:
-- a stock row has counted the order lines that name it, but for those of the population (3,000 orders in
-- each district). There is no index for it: it would cost every New-Order ten more entries to keep.
CREATE ASSERTION stock_matches_order_lines CHECK (NOT EXISTS (
    SELECT 1
      FROM stock
     WHERE s_ytd <> coalesce((SELECT sum(ol_quantity) FROM order_line
                               WHERE ol_supply_w_id = s_w_id AND ol_i_id = s_i_id AND ol_o_id > 3000), 0)
        OR s_order_cnt <> (SELECT count(*) FROM order_line
                            WHERE ol_supply_w_id = s_w_id AND ol_i_id = s_i_id AND ol_o_id > 3000)
        OR s_remote_cnt <> (SELECT count(*) FROM order_line
                             WHERE ol_supply_w_id = s_w_id AND ol_i_id = s_i_id AND ol_o_id > 3000
                               AND ol_w_id <> ol_supply_w_id)));
