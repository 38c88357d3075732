-- TPC-C, clauses 2.4 to 2.8: the five transactions. Loads unchanged in PostgreSQL 15.
--
-- Times are parameters, so that the same calls give the same rows anywhere. Statements on rows that may
-- belong to another warehouse (the stock of a supplying warehouse, a customer who pays elsewhere) use
-- parameters only and come first; statements on the home warehouse's rows may use what those returned.

-- Clause 2.4. The three arrays have one element per order line.
CREATE PROCEDURE new_order(
    IN  warehouse_id         integer,
    IN  district_id          integer,
    IN  customer_id          integer,
    IN  item_ids             integer[],
    IN  supply_warehouse_ids integer[],
    IN  quantities           integer[],
    IN  entry_date           timestamp,
    OUT order_id             integer,
    OUT customer_last        text,
    OUT customer_credit      text,
    OUT customer_discount    numeric,
    OUT warehouse_tax        numeric,
    OUT district_tax         numeric,
    OUT total_amount         numeric,
    OUT item_names           text[],
    OUT stock_quantities     integer[],
    OUT brand_generic        text[],
    OUT prices               numeric[],
    OUT amounts              numeric[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    line_count     integer := cardinality(item_ids);
    all_local      integer := 1;
    item_name      text;
    item_price     numeric;
    item_data      text;
    stock_quantity integer;
    stock_data     text;
    district_info  text;
    district_infos text[] := '{}';
BEGIN
    total_amount := 0;
    item_names := '{}';
    stock_quantities := '{}';
    brand_generic := '{}';
    prices := '{}';
    amounts := '{}';

    FOR line IN 1 .. line_count LOOP
        SELECT i_name, i_price, i_data
          INTO item_name, item_price, item_data
          FROM item
         WHERE i_id = item_ids[line];
        -- Clause 2.4.2.3: one order in a hundred ends here, with its last line, and is rolled back.
        IF NOT FOUND THEN
            RAISE EXCEPTION 'Item number is not valid' USING ERRCODE = 'TC001';
        END IF;

        IF supply_warehouse_ids[line] <> warehouse_id THEN
            all_local := 0;
        END IF;

        UPDATE stock
           SET s_quantity = CASE WHEN s_quantity >= quantities[line] + 10 THEN s_quantity - quantities[line]
                                 ELSE s_quantity - quantities[line] + 91 END,
               s_ytd = s_ytd + quantities[line],
               s_order_cnt = s_order_cnt + 1,
               s_remote_cnt = s_remote_cnt
                            + CASE WHEN supply_warehouse_ids[line] <> warehouse_id THEN 1 ELSE 0 END
         WHERE s_w_id = supply_warehouse_ids[line]
           AND s_i_id = item_ids[line]
        RETURNING s_quantity, s_data,
                  CASE district_id WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
                                   WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06
                                   WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09
                                   ELSE s_dist_10 END
             INTO STRICT stock_quantity, stock_data, district_info;

        item_names[line] := item_name;
        prices[line] := item_price;
        amounts[line] := quantities[line] * item_price;
        total_amount := total_amount + quantities[line] * item_price;
        stock_quantities[line] := stock_quantity;
        district_infos[line] := district_info;
        brand_generic[line] := CASE WHEN item_data LIKE '%ORIGINAL%' AND stock_data LIKE '%ORIGINAL%'
                                    THEN 'B' ELSE 'G' END;
    END LOOP;

    SELECT w_tax
      INTO STRICT warehouse_tax
      FROM warehouse
     WHERE w_id = warehouse_id;

    SELECT c_last, c_credit, c_discount
      INTO STRICT customer_last, customer_credit, customer_discount
      FROM customer
     WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer_id;

    -- The order's number, dense in its district, is taken together with the rows that bear it.
    UPDATE district
       SET d_next_o_id = d_next_o_id + 1
     WHERE d_w_id = warehouse_id AND d_id = district_id
    RETURNING d_tax, d_next_o_id - 1
         INTO STRICT district_tax, order_id;

    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    VALUES (order_id, district_id, warehouse_id, customer_id, entry_date, NULL, line_count, all_local);

    INSERT INTO new_order (no_o_id, no_d_id, no_w_id)
    VALUES (order_id, district_id, warehouse_id);

    FOR line IN 1 .. line_count LOOP
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
                                ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
        VALUES (order_id, district_id, warehouse_id, line, item_ids[line], supply_warehouse_ids[line],
                NULL, quantities[line], amounts[line], district_infos[line]);
    END LOOP;

    total_amount := round(total_amount * (1 - customer_discount) * (1 + warehouse_tax + district_tax), 2);
END;
$$;

-- Clause 2.5. The customer is given by number, or by last name where the number is NULL; the customer's
-- warehouse may be another one than the paid one.
CREATE PROCEDURE payment(
    IN    warehouse_id          integer,
    IN    district_id           integer,
    IN    customer_warehouse_id integer,
    IN    customer_district_id  integer,
    INOUT customer_id           integer,
    INOUT customer_last         text,
    IN    amount                numeric,
    IN    paid_at               timestamp,
    OUT   warehouse_street_1    text,
    OUT   warehouse_street_2    text,
    OUT   warehouse_city        text,
    OUT   warehouse_state       text,
    OUT   warehouse_zip         text,
    OUT   district_street_1     text,
    OUT   district_street_2     text,
    OUT   district_city         text,
    OUT   district_state        text,
    OUT   district_zip          text,
    OUT   customer_first        text,
    OUT   customer_middle       text,
    OUT   customer_street_1     text,
    OUT   customer_street_2     text,
    OUT   customer_city         text,
    OUT   customer_state        text,
    OUT   customer_zip          text,
    OUT   customer_phone        text,
    OUT   customer_since        timestamp,
    OUT   customer_credit       text,
    OUT   customer_credit_limit numeric,
    OUT   customer_discount     numeric,
    OUT   customer_balance      numeric,
    OUT   customer_data         text
)
LANGUAGE plpgsql
AS $$
DECLARE
    namesakes      bigint;
    warehouse_name text;
    district_name  text;
BEGIN
    IF customer_id IS NULL THEN
        SELECT count(*)
          INTO namesakes
          FROM customer
         WHERE c_w_id = customer_warehouse_id AND c_d_id = customer_district_id AND c_last = customer_last;

        -- Clause 2.5.2.2: the row at position n/2, rounded up, in the order of the first names.
        SELECT c_id
          INTO STRICT customer_id
          FROM customer
         WHERE c_w_id = customer_warehouse_id AND c_d_id = customer_district_id AND c_last = customer_last
         ORDER BY c_first, c_id
         LIMIT 1 OFFSET (namesakes - 1) / 2;
    END IF;

    -- A customer with bad credit gets a note of the payment in front of c_data, cut to 500 characters.
    UPDATE customer
       SET c_balance = c_balance - amount,
           c_ytd_payment = c_ytd_payment + amount,
           c_payment_cnt = c_payment_cnt + 1,
           c_data = CASE WHEN c_credit = 'BC'
                         THEN left(c_id::text || ' ' || c_d_id::text || ' ' || c_w_id::text || ' '
                                   || district_id::text || ' ' || warehouse_id::text || ' '
                                   || amount::text || '|' || c_data, 500)
                         ELSE c_data END
     WHERE c_w_id = customer_warehouse_id AND c_d_id = customer_district_id AND c_id = customer_id
    RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
              c_credit, c_credit_lim, c_discount, c_balance,
              CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END
         INTO STRICT customer_first, customer_middle, customer_last, customer_street_1, customer_street_2,
              customer_city, customer_state, customer_zip, customer_phone, customer_since,
              customer_credit, customer_credit_limit, customer_discount, customer_balance,
              customer_data;

    UPDATE warehouse
       SET w_ytd = w_ytd + amount
     WHERE w_id = warehouse_id
    RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip
         INTO STRICT warehouse_name, warehouse_street_1, warehouse_street_2, warehouse_city,
              warehouse_state, warehouse_zip;

    UPDATE district
       SET d_ytd = d_ytd + amount
     WHERE d_w_id = warehouse_id AND d_id = district_id
    RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip
         INTO STRICT district_name, district_street_1, district_street_2, district_city,
              district_state, district_zip;

    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (customer_id, customer_district_id, customer_warehouse_id, district_id, warehouse_id, paid_at,
            amount, warehouse_name || '    ' || district_name);
END;
$$;

-- Clause 2.6. The customer as in payment; the arrays have one element per line of the latest order.
CREATE PROCEDURE order_status(
    IN    warehouse_id         integer,
    IN    district_id          integer,
    INOUT customer_id          integer,
    INOUT customer_last        text,
    OUT   customer_first       text,
    OUT   customer_middle      text,
    OUT   customer_balance     numeric,
    OUT   order_id             integer,
    OUT   entry_date           timestamp,
    OUT   carrier_id           integer,
    OUT   item_ids             integer[],
    OUT   supply_warehouse_ids integer[],
    OUT   quantities           integer[],
    OUT   amounts              numeric[],
    OUT   delivery_dates       timestamp[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    namesakes bigint;
BEGIN
    IF customer_id IS NULL THEN
        SELECT count(*)
          INTO namesakes
          FROM customer
         WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_last = customer_last;

        SELECT c_id
          INTO STRICT customer_id
          FROM customer
         WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_last = customer_last
         ORDER BY c_first, c_id
         LIMIT 1 OFFSET (namesakes - 1) / 2;
    END IF;

    SELECT c_first, c_middle, c_last, c_balance
      INTO STRICT customer_first, customer_middle, customer_last, customer_balance
      FROM customer
     WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer_id;

    SELECT o_id, o_entry_d, o_carrier_id
      INTO order_id, entry_date, carrier_id
      FROM orders
     WHERE o_w_id = warehouse_id AND o_d_id = district_id AND o_c_id = customer_id
     ORDER BY o_id DESC
     LIMIT 1;

    SELECT array_agg(ol_i_id ORDER BY ol_number),
           array_agg(ol_supply_w_id ORDER BY ol_number),
           array_agg(ol_quantity ORDER BY ol_number),
           array_agg(ol_amount ORDER BY ol_number),
           array_agg(ol_delivery_d ORDER BY ol_number)
      INTO item_ids, supply_warehouse_ids, quantities, amounts, delivery_dates
      FROM order_line
     WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id = order_id;
END;
$$;

-- Clause 2.7, the business transaction at once instead of through a queue: the oldest undelivered order
-- of each district. A district without one is skipped; its element of the result is NULL.
CREATE PROCEDURE delivery(
    IN  warehouse_id  integer,
    IN  carrier_id    integer,
    IN  delivery_date timestamp,
    OUT order_ids     integer[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    order_id     integer;
    customer_id  integer;
    order_amount numeric;
BEGIN
    order_ids := '{}';

    FOR district_id IN 1 .. 10 LOOP
        SELECT no_o_id
          INTO order_id
          FROM new_order
         WHERE no_w_id = warehouse_id AND no_d_id = district_id
         ORDER BY no_o_id
         LIMIT 1
           FOR UPDATE;
        order_ids[district_id] := order_id;
        IF order_id IS NULL THEN
            CONTINUE;
        END IF;

        DELETE FROM new_order
         WHERE no_w_id = warehouse_id AND no_d_id = district_id AND no_o_id = order_id;

        UPDATE orders
           SET o_carrier_id = carrier_id
         WHERE o_w_id = warehouse_id AND o_d_id = district_id AND o_id = order_id
        RETURNING o_c_id
             INTO STRICT customer_id;

        UPDATE order_line
           SET ol_delivery_d = delivery_date
         WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id = order_id;

        SELECT sum(ol_amount)
          INTO order_amount
          FROM order_line
         WHERE ol_w_id = warehouse_id AND ol_d_id = district_id AND ol_o_id = order_id;

        UPDATE customer
           SET c_balance = c_balance + order_amount,
               c_delivery_cnt = c_delivery_cnt + 1
         WHERE c_w_id = warehouse_id AND c_d_id = district_id AND c_id = customer_id;
    END LOOP;
END;
$$;

-- Clause 2.8: how many of the items in the district's last twenty orders are below the threshold.
CREATE PROCEDURE stock_level(
    IN  warehouse_id integer,
    IN  district_id  integer,
    IN  threshold    integer,
    OUT low_stock    bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    next_order_id integer;
BEGIN
    SELECT d_next_o_id
      INTO STRICT next_order_id
      FROM district
     WHERE d_w_id = warehouse_id AND d_id = district_id;

    SELECT count(DISTINCT s_i_id)
      INTO low_stock
      FROM order_line
      JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
     WHERE ol_w_id = warehouse_id AND ol_d_id = district_id
       AND ol_o_id >= next_order_id - 20 AND ol_o_id < next_order_id
       AND s_quantity < threshold;
END;
$$;
