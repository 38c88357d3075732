-- TPC-W, clause 2: the twenty transactions of the bookstore's fourteen pages. Loads unchanged in PostgreSQL 15.
--
-- Times, the fall-back book of an empty cart, shipping dates and the card's authorization are parameters, so
-- that the same calls give the same rows anywhere. A page that lists books gets one array for each column.

-- ---------------------------------------------------------------------------------------------------------
-- The thirteen that only read.
-- ---------------------------------------------------------------------------------------------------------

-- 1. The name of a customer, for the greeting on the home page.
CREATE PROCEDURE get_name(
    IN  customer_id bigint,
    OUT first_name  text,
    OUT last_name   text
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT c_fname, c_lname
      INTO first_name, last_name
      FROM customer
     WHERE c_id = customer_id;
END;
$$;

-- 2. A customer by user name, with the address, for the form that confirms a purchase.
CREATE PROCEDURE get_customer(
    IN  user_name   text,
    OUT customer_id bigint,
    OUT password    text,
    OUT first_name  text,
    OUT last_name   text,
    OUT phone       text,
    OUT email       text,
    OUT birthdate   date,
    OUT data        text,
    OUT discount    numeric,
    OUT address_id  bigint,
    OUT street_1    text,
    OUT street_2    text,
    OUT city        text,
    OUT state       text,
    OUT zip         text,
    OUT country     text
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT c_id, c_passwd, c_fname, c_lname, c_phone, c_email, c_birthdate, c_data, c_discount,
           addr_id, addr_street1, addr_street2, addr_city, addr_state, addr_zip, co_name
      INTO customer_id, password, first_name, last_name, phone, email, birthdate, data, discount,
           address_id, street_1, street_2, city, state, zip, country
      FROM customer
      JOIN address ON addr_id = c_addr_id
      JOIN country ON co_id = addr_co_id
     WHERE c_uname = user_name;
END;
$$;

-- 3. The user name of a customer.
CREATE PROCEDURE get_user_name(IN customer_id bigint, OUT user_name text)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT c_uname INTO user_name FROM customer WHERE c_id = customer_id;
END;
$$;

-- 4. The password that belongs to a user name.
CREATE PROCEDURE get_password(IN user_name text, OUT password text)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT c_passwd INTO password FROM customer WHERE c_uname = user_name;
END;
$$;

-- 5. A book with its author.
CREATE PROCEDURE get_book(
    IN  book_id           integer,
    OUT title             text,
    OUT publication_date  date,
    OUT publisher         text,
    OUT subject           text,
    OUT description       text,
    OUT thumbnail         text,
    OUT image             text,
    OUT suggested_price   numeric,
    OUT cost              numeric,
    OUT available_from    date,
    OUT stock             integer,
    OUT isbn              text,
    OUT pages             integer,
    OUT backing           text,
    OUT dimensions        text,
    OUT author_first_name text,
    OUT author_last_name  text
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT i_title, i_pub_date, i_publisher, i_subject, i_desc, i_thumbnail, i_image, i_srp, i_cost, i_avail,
           i_stock, i_isbn, i_page, i_backing, i_dimensions, a_fname, a_lname
      INTO title, publication_date, publisher, subject, description, thumbnail, image, suggested_price, cost,
           available_from, stock, isbn, pages, backing, dimensions, author_first_name, author_last_name
      FROM item
      JOIN author ON a_id = i_a_id
     WHERE i_id = book_id;
END;
$$;

-- 6. The first fifty books of a subject, by title.
CREATE PROCEDURE search_by_subject(
    IN  wanted_subject     text,
    OUT book_ids           integer[],
    OUT titles             text[],
    OUT author_first_names text[],
    OUT author_last_names  text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(i_id ORDER BY i_title, i_id), array_agg(i_title ORDER BY i_title, i_id),
           array_agg(a_fname ORDER BY i_title, i_id), array_agg(a_lname ORDER BY i_title, i_id)
      INTO book_ids, titles, author_first_names, author_last_names
      FROM (SELECT i_id, i_title, a_fname, a_lname
              FROM item
              JOIN author ON a_id = i_a_id
             WHERE i_subject = wanted_subject
             ORDER BY i_title, i_id
             LIMIT 50) AS found;
END;
$$;

-- 7. The first fifty books with a word in their title.
CREATE PROCEDURE search_by_title(
    IN  word               text,
    OUT book_ids           integer[],
    OUT titles             text[],
    OUT author_first_names text[],
    OUT author_last_names  text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(i_id ORDER BY i_title, i_id), array_agg(i_title ORDER BY i_title, i_id),
           array_agg(a_fname ORDER BY i_title, i_id), array_agg(a_lname ORDER BY i_title, i_id)
      INTO book_ids, titles, author_first_names, author_last_names
      FROM (SELECT i_id, i_title, a_fname, a_lname
              FROM item
              JOIN author ON a_id = i_a_id
             WHERE i_title LIKE '%' || word || '%'
             ORDER BY i_title, i_id
             LIMIT 50) AS found;
END;
$$;

-- 8. The first fifty books of the authors whose last name begins so.
CREATE PROCEDURE search_by_author(
    IN  name_start         text,
    OUT book_ids           integer[],
    OUT titles             text[],
    OUT author_first_names text[],
    OUT author_last_names  text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(i_id ORDER BY i_title, i_id), array_agg(i_title ORDER BY i_title, i_id),
           array_agg(a_fname ORDER BY i_title, i_id), array_agg(a_lname ORDER BY i_title, i_id)
      INTO book_ids, titles, author_first_names, author_last_names
      FROM (SELECT i_id, i_title, a_fname, a_lname
              FROM author
              JOIN item ON i_a_id = a_id
             WHERE a_lname LIKE name_start || '%'
             ORDER BY i_title, i_id
             LIMIT 50) AS found;
END;
$$;

-- 9. The fifty newest books of a subject.
CREATE PROCEDURE new_products(
    IN  wanted_subject     text,
    OUT book_ids           integer[],
    OUT titles             text[],
    OUT author_first_names text[],
    OUT author_last_names  text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(i_id ORDER BY i_pub_date DESC, i_title, i_id),
           array_agg(i_title ORDER BY i_pub_date DESC, i_title, i_id),
           array_agg(a_fname ORDER BY i_pub_date DESC, i_title, i_id),
           array_agg(a_lname ORDER BY i_pub_date DESC, i_title, i_id)
      INTO book_ids, titles, author_first_names, author_last_names
      FROM (SELECT i_id, i_title, i_pub_date, a_fname, a_lname
              FROM item
              JOIN author ON a_id = i_a_id
             WHERE i_subject = wanted_subject
             ORDER BY i_pub_date DESC, i_title, i_id
             LIMIT 50) AS newest;
END;
$$;

-- 10. The fifty books of a subject that sold most in the latest 3,333 orders.
CREATE PROCEDURE best_sellers(
    IN  wanted_subject     text,
    OUT book_ids           integer[],
    OUT titles             text[],
    OUT author_first_names text[],
    OUT author_last_names  text[],
    OUT copies_sold        bigint[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(i_id ORDER BY sold DESC, i_id), array_agg(i_title ORDER BY sold DESC, i_id),
           array_agg(a_fname ORDER BY sold DESC, i_id), array_agg(a_lname ORDER BY sold DESC, i_id),
           array_agg(sold ORDER BY sold DESC, i_id)
      INTO book_ids, titles, author_first_names, author_last_names, copies_sold
      FROM (SELECT i_id, i_title, a_fname, a_lname, sum(ol_qty) AS sold
              FROM (SELECT o_id FROM orders ORDER BY o_date DESC, o_id DESC LIMIT 3333) AS latest
              JOIN order_line ON ol_o_id = o_id
              JOIN item ON i_id = ol_i_id
              JOIN author ON a_id = i_a_id
             WHERE i_subject = wanted_subject
             GROUP BY i_id, i_title, a_fname, a_lname
             ORDER BY sold DESC, i_id
             LIMIT 50) AS best;
END;
$$;

-- 11. The five books that a book is shown with.
CREATE PROCEDURE get_related(
    IN  book_id    integer,
    OUT book_ids   integer[],
    OUT thumbnails text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(related.i_id ORDER BY related.i_id), array_agg(related.i_thumbnail ORDER BY related.i_id)
      INTO book_ids, thumbnails
      FROM item AS shown
      JOIN item AS related
        ON related.i_id IN (shown.i_related1, shown.i_related2, shown.i_related3, shown.i_related4,
                            shown.i_related5)
     WHERE shown.i_id = book_id;
END;
$$;

-- 12. The latest order of a customer, with its addresses, its card and its lines.
CREATE PROCEDURE get_most_recent_order(
    IN  user_name        text,
    OUT order_id         bigint,
    OUT ordered_at       timestamp,
    OUT sub_total        numeric,
    OUT tax              numeric,
    OUT total            numeric,
    OUT shipping_type    text,
    OUT shipped_at       timestamp,
    OUT status           text,
    OUT card_type        text,
    OUT billing_street   text,
    OUT billing_city     text,
    OUT billing_zip      text,
    OUT billing_country  text,
    OUT shipping_street  text,
    OUT shipping_city    text,
    OUT shipping_zip     text,
    OUT shipping_country text,
    OUT book_ids         integer[],
    OUT titles           text[],
    OUT quantities       integer[],
    OUT discounts        numeric[],
    OUT comments         text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT o_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, o_status, cx_type,
           billing.addr_street1, billing.addr_city, billing.addr_zip, billed.co_name,
           shipping.addr_street1, shipping.addr_city, shipping.addr_zip, shipped.co_name
      INTO order_id, ordered_at, sub_total, tax, total, shipping_type, shipped_at, status, card_type,
           billing_street, billing_city, billing_zip, billing_country,
           shipping_street, shipping_city, shipping_zip, shipping_country
      FROM customer
      JOIN orders ON o_c_id = c_id
      JOIN cc_xacts ON cx_o_id = o_id
      JOIN address AS billing ON billing.addr_id = o_bill_addr_id
      JOIN country AS billed ON billed.co_id = billing.addr_co_id
      JOIN address AS shipping ON shipping.addr_id = o_ship_addr_id
      JOIN country AS shipped ON shipped.co_id = shipping.addr_co_id
     WHERE c_uname = user_name
     ORDER BY o_date DESC, o_id DESC
     LIMIT 1;

    SELECT array_agg(i_id ORDER BY ol_id), array_agg(i_title ORDER BY ol_id), array_agg(ol_qty ORDER BY ol_id),
           array_agg(ol_discount ORDER BY ol_id), array_agg(ol_comments ORDER BY ol_id)
      INTO book_ids, titles, quantities, discounts, comments
      FROM order_line
      JOIN item ON i_id = ol_i_id
     WHERE ol_o_id = order_id;
END;
$$;

-- 13. What is in a cart.
CREATE PROCEDURE get_cart(
    IN  cart_id    bigint,
    OUT changed_at timestamp,
    OUT book_ids   integer[],
    OUT titles     text[],
    OUT costs      numeric[],
    OUT prices     numeric[],
    OUT backings   text[],
    OUT quantities integer[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT sc_date INTO changed_at FROM shopping_cart WHERE sc_id = cart_id;

    SELECT array_agg(i_id ORDER BY i_id), array_agg(i_title ORDER BY i_id), array_agg(i_cost ORDER BY i_id),
           array_agg(i_srp ORDER BY i_id), array_agg(i_backing ORDER BY i_id), array_agg(scl_qty ORDER BY i_id)
      INTO book_ids, titles, costs, prices, backings, quantities
      FROM shopping_cart_line
      JOIN item ON i_id = scl_i_id
     WHERE scl_sc_id = cart_id;
END;
$$;

-- ---------------------------------------------------------------------------------------------------------
-- The seven that write.
-- ---------------------------------------------------------------------------------------------------------

-- 14. An empty cart for a new visitor.
CREATE PROCEDURE create_empty_cart(IN at timestamp, OUT cart_id bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO shopping_cart (sc_date) VALUES (at) RETURNING sc_id INTO cart_id;
END;
$$;

-- 15. Changes a cart: adds one copy of a book (NULL: of none), sets the quantities of some that are in it,
-- where 0 takes the book out; a cart that is empty after that gets one copy of the fall-back book.
CREATE PROCEDURE change_cart(
    IN  cart_id          bigint,
    IN  added_book_id    integer,
    IN  changed_book_ids integer[],
    IN  new_quantities   integer[],
    IN  fallback_book_id integer,
    IN  at               timestamp,
    OUT book_ids         integer[],
    OUT titles           text[],
    OUT costs            numeric[],
    OUT quantities       integer[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    IF added_book_id IS NOT NULL THEN
        INSERT INTO shopping_cart_line (scl_sc_id, scl_i_id, scl_qty)
        VALUES (cart_id, added_book_id, 1)
        ON CONFLICT (scl_sc_id, scl_i_id) DO UPDATE SET scl_qty = shopping_cart_line.scl_qty + 1;
    END IF;

    FOR position IN 1 .. coalesce(cardinality(changed_book_ids), 0) LOOP
        IF new_quantities[position] = 0 THEN
            DELETE FROM shopping_cart_line
             WHERE scl_sc_id = cart_id AND scl_i_id = changed_book_ids[position];
        ELSE
            UPDATE shopping_cart_line
               SET scl_qty = new_quantities[position]
             WHERE scl_sc_id = cart_id AND scl_i_id = changed_book_ids[position];
        END IF;
    END LOOP;

    IF NOT EXISTS (SELECT 1 FROM shopping_cart_line WHERE scl_sc_id = cart_id) THEN
        INSERT INTO shopping_cart_line (scl_sc_id, scl_i_id, scl_qty)
        VALUES (cart_id, fallback_book_id, 1);
    END IF;

    UPDATE shopping_cart SET sc_date = at WHERE sc_id = cart_id;

    SELECT array_agg(i_id ORDER BY i_id), array_agg(i_title ORDER BY i_id), array_agg(i_cost ORDER BY i_id),
           array_agg(scl_qty ORDER BY i_id)
      INTO book_ids, titles, costs, quantities
      FROM shopping_cart_line
      JOIN item ON i_id = scl_i_id
     WHERE scl_sc_id = cart_id;
END;
$$;

-- 16. A known customer is back: a new session of two hours.
CREATE PROCEDURE refresh_session(IN customer_id bigint, IN at timestamp)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE customer
       SET c_last_visit = at::date,
           c_login = at,
           c_expiration = at + interval '2 hours'
     WHERE c_id = customer_id;
END;
$$;

-- 17. A new customer: the address is looked for and added if it is new, the user name follows from the
-- number that the server gives.
CREATE PROCEDURE create_customer(
    IN  first_name  text,
    IN  last_name   text,
    IN  street_1    text,
    IN  street_2    text,
    IN  city        text,
    IN  state       text,
    IN  zip         text,
    IN  country_name text,
    IN  phone       text,
    IN  email       text,
    IN  birthdate   date,
    IN  data        text,
    IN  discount    numeric,
    IN  at          timestamp,
    OUT customer_id bigint,
    OUT user_name   text,
    OUT password    text
)
LANGUAGE plpgsql
AS $$
DECLARE
    country_id integer;
    address_id bigint;
BEGIN
    SELECT co_id INTO STRICT country_id FROM country WHERE co_name = country_name;

    SELECT min(addr_id)
      INTO address_id
      FROM address
     WHERE addr_zip = zip AND addr_street1 = street_1 AND addr_street2 = street_2 AND addr_city = city
       AND addr_state = state AND addr_co_id = country_id;
    IF address_id IS NULL THEN
        INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id)
        VALUES (street_1, street_2, city, state, zip, country_id)
        RETURNING addr_id INTO address_id;
    END IF;

    customer_id := nextval('customer_ids');
    user_name := 'user' || customer_id::text;
    password := 'pass' || customer_id::text;

    INSERT INTO customer (c_id, c_uname, c_passwd, c_fname, c_lname, c_addr_id, c_phone, c_email, c_since,
                          c_last_visit, c_login, c_expiration, c_discount, c_balance, c_ytd_pmt, c_birthdate,
                          c_data)
    VALUES (customer_id, user_name, password, first_name, last_name, address_id, phone, email, at::date,
            at::date, at, at + interval '2 hours', discount, 0, 0, birthdate,
            data);
END;
$$;

-- 18. Buys what is in a cart: the order, its lines, the card's record and the stock of every book; the cart is
-- empty afterwards. The customer's own address is billed and shipped to.
CREATE PROCEDURE confirm_purchase(
    IN  cart_id          bigint,
    IN  customer_id      bigint,
    IN  card_type        text,
    IN  card_number      text,
    IN  card_name        text,
    IN  card_expires     date,
    IN  authorization_id text,
    IN  shipping_type    text,
    IN  shipping_date    timestamp,
    IN  line_comment     text,
    IN  at               timestamp,
    OUT order_id         bigint,
    OUT sub_total        numeric,
    OUT tax              numeric,
    OUT total            numeric
)
LANGUAGE plpgsql
AS $$
DECLARE
    line             record;
    line_number      integer := 0;
    copies           bigint;
    full_price       numeric;
    discount         numeric;
    home_address_id  bigint;
    card_country_id  integer;
BEGIN
    SELECT c_discount, c_addr_id, addr_co_id
      INTO STRICT discount, home_address_id, card_country_id
      FROM customer
      JOIN address ON addr_id = c_addr_id
     WHERE c_id = customer_id;

    SELECT sum(scl_qty), sum(scl_qty * i_cost)
      INTO copies, full_price
      FROM shopping_cart_line
      JOIN item ON i_id = scl_i_id
     WHERE scl_sc_id = cart_id;
    IF copies IS NULL THEN
        RAISE EXCEPTION 'the cart is empty' USING ERRCODE = 'TW001';
    END IF;

    -- Clause 2.7: 8.25% tax; 3.00 for the parcel and 1.00 for each copy in it.
    sub_total := round(full_price * (1 - discount), 2);
    tax := round(sub_total * 0.0825, 2);
    total := sub_total + tax + 3.00 + 1.00 * copies;

    INSERT INTO orders (o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date,
                        o_bill_addr_id, o_ship_addr_id, o_status)
    VALUES (customer_id, at, sub_total, tax, total, shipping_type, shipping_date,
            home_address_id, home_address_id, 'PENDING')
    RETURNING o_id INTO order_id;

    FOR line IN SELECT scl_i_id, scl_qty
                  FROM shopping_cart_line
                 WHERE scl_sc_id = cart_id
                 ORDER BY scl_i_id LOOP
        line_number := line_number + 1;
        INSERT INTO order_line (ol_id, ol_o_id, ol_i_id, ol_qty, ol_discount, ol_comments)
        VALUES (line_number, order_id, line.scl_i_id, line.scl_qty, discount, line_comment);

        -- Fewer than ten copies would be left: twenty-one more come in.
        UPDATE item
           SET i_stock = CASE WHEN i_stock - line.scl_qty < 10 THEN i_stock - line.scl_qty + 21
                              ELSE i_stock - line.scl_qty END
         WHERE i_id = line.scl_i_id;
    END LOOP;

    INSERT INTO cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt, cx_xact_date,
                          cx_co_id)
    VALUES (order_id, card_type, card_number, card_name, card_expires, authorization_id, total, at,
            card_country_id);

    DELETE FROM shopping_cart_line WHERE scl_sc_id = cart_id;
END;
$$;

-- 19. The same, shipped to an address that is typed in and added if it is new.
CREATE PROCEDURE confirm_purchase_to_address(
    IN  cart_id          bigint,
    IN  customer_id      bigint,
    IN  card_type        text,
    IN  card_number      text,
    IN  card_name        text,
    IN  card_expires     date,
    IN  authorization_id text,
    IN  shipping_type    text,
    IN  shipping_date    timestamp,
    IN  line_comment     text,
    IN  street_1         text,
    IN  street_2         text,
    IN  city             text,
    IN  state            text,
    IN  zip              text,
    IN  country_name     text,
    IN  at               timestamp,
    OUT order_id         bigint,
    OUT sub_total        numeric,
    OUT tax              numeric,
    OUT total            numeric
)
LANGUAGE plpgsql
AS $$
DECLARE
    line             record;
    line_number      integer := 0;
    copies           bigint;
    full_price       numeric;
    discount         numeric;
    home_address_id  bigint;
    card_country_id  integer;
    country_id       integer;
    address_id       bigint;
BEGIN
    SELECT co_id INTO STRICT country_id FROM country WHERE co_name = country_name;

    SELECT min(addr_id)
      INTO address_id
      FROM address
     WHERE addr_zip = zip AND addr_street1 = street_1 AND addr_street2 = street_2 AND addr_city = city
       AND addr_state = state AND addr_co_id = country_id;
    IF address_id IS NULL THEN
        INSERT INTO address (addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id)
        VALUES (street_1, street_2, city, state, zip, country_id)
        RETURNING addr_id INTO address_id;
    END IF;

    SELECT c_discount, c_addr_id, addr_co_id
      INTO STRICT discount, home_address_id, card_country_id
      FROM customer
      JOIN address ON addr_id = c_addr_id
     WHERE c_id = customer_id;

    SELECT sum(scl_qty), sum(scl_qty * i_cost)
      INTO copies, full_price
      FROM shopping_cart_line
      JOIN item ON i_id = scl_i_id
     WHERE scl_sc_id = cart_id;
    IF copies IS NULL THEN
        RAISE EXCEPTION 'the cart is empty' USING ERRCODE = 'TW001';
    END IF;

    sub_total := round(full_price * (1 - discount), 2);
    tax := round(sub_total * 0.0825, 2);
    total := sub_total + tax + 3.00 + 1.00 * copies;

    INSERT INTO orders (o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date,
                        o_bill_addr_id, o_ship_addr_id, o_status)
    VALUES (customer_id, at, sub_total, tax, total, shipping_type, shipping_date,
            home_address_id, address_id, 'PENDING')
    RETURNING o_id INTO order_id;

    FOR line IN SELECT scl_i_id, scl_qty
                  FROM shopping_cart_line
                 WHERE scl_sc_id = cart_id
                 ORDER BY scl_i_id LOOP
        line_number := line_number + 1;
        INSERT INTO order_line (ol_id, ol_o_id, ol_i_id, ol_qty, ol_discount, ol_comments)
        VALUES (line_number, order_id, line.scl_i_id, line.scl_qty, discount, line_comment);

        UPDATE item
           SET i_stock = CASE WHEN i_stock - line.scl_qty < 10 THEN i_stock - line.scl_qty + 21
                              ELSE i_stock - line.scl_qty END
         WHERE i_id = line.scl_i_id;
    END LOOP;

    INSERT INTO cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt, cx_xact_date,
                          cx_co_id)
    VALUES (order_id, card_type, card_number, card_name, card_expires, authorization_id, total, at,
            card_country_id);

    DELETE FROM shopping_cart_line WHERE scl_sc_id = cart_id;
END;
$$;

-- 20. The shop changes a book: cost, pictures, date, and the five books that it is shown with. Those are what
-- its buyers among the latest 10,000 orders bought most beside it; where there are fewer, the old ones stay.
CREATE PROCEDURE admin_update(
    IN book_id       integer,
    IN new_cost      numeric,
    IN new_image     text,
    IN new_thumbnail text,
    IN at            timestamp
)
LANGUAGE plpgsql
AS $$
DECLARE
    related integer[];
BEGIN
    WITH latest AS (
        SELECT o_id, o_c_id FROM orders ORDER BY o_date DESC, o_id DESC LIMIT 10000
    ), buyer AS (
        SELECT DISTINCT o_c_id AS buyer_id
          FROM latest
          JOIN order_line ON ol_o_id = o_id
         WHERE ol_i_id = book_id
    ), popular AS (
        SELECT ol_i_id, sum(ol_qty) AS sold
          FROM latest
          JOIN buyer ON buyer_id = o_c_id
          JOIN order_line ON ol_o_id = o_id
         WHERE ol_i_id <> book_id
         GROUP BY ol_i_id
         ORDER BY sold DESC, ol_i_id
         LIMIT 5
    )
    SELECT array_agg(ol_i_id ORDER BY sold DESC, ol_i_id) INTO related FROM popular;

    UPDATE item
       SET i_cost = new_cost,
           i_image = new_image,
           i_thumbnail = new_thumbnail,
           i_pub_date = at::date,
           i_related1 = coalesce(related[1], i_related1),
           i_related2 = coalesce(related[2], i_related2),
           i_related3 = coalesce(related[3], i_related3),
           i_related4 = coalesce(related[4], i_related4),
           i_related5 = coalesce(related[5], i_related5)
     WHERE i_id = book_id;
END;
$$;
