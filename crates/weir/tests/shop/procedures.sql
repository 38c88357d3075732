CREATE PROCEDURE register(address text, INOUT given bigint) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO account (email) VALUES (address) ON CONFLICT (email) DO NOTHING RETURNING id INTO given;
    IF given IS NULL THEN
        SELECT id INTO given FROM account WHERE email = address;
    END IF;
END $$;
CREATE PROCEDURE register_plainly(address text, INOUT given bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT id INTO given FROM account WHERE email = address;
    IF given IS NULL THEN
        INSERT INTO account (email) VALUES (address) RETURNING id INTO given;
    END IF;
END $$;
CREATE PROCEDURE place_order(order_token text, buyer bigint, first_one bigint, second_one bigint, pieces integer, code_used text, INOUT given bigint)
LANGUAGE plpgsql AS $$
DECLARE
    first_price integer;
    second_price integer;
    off integer := 0;
    code_taken text := NULL;
BEGIN
    UPDATE product SET stock = stock - pieces WHERE id = first_one RETURNING price INTO first_price;
    UPDATE product SET stock = stock - 1 WHERE id = second_one RETURNING price INTO second_price;
    IF code_used IS NOT NULL THEN
        UPDATE coupon SET used = true WHERE code = code_used AND NOT used RETURNING code, discount INTO code_taken, off;
    END IF;
    INSERT INTO orders (token, account_id, coupon_id, total)
    VALUES (order_token, buyer, code_taken, pieces * first_price + second_price - coalesce(off, 0)) RETURNING id INTO given;
    INSERT INTO line (order_id, product_id, quantity, price) VALUES (given, first_one, pieces, first_price);
    INSERT INTO line (order_id, product_id, quantity, price) VALUES (given, second_one, 1, second_price);
END $$;
CREATE PROCEDURE send_invoice(billed bigint, INOUT given integer) LANGUAGE plpgsql AS $$
DECLARE
    owed integer;
BEGIN
    SELECT total INTO owed FROM orders WHERE id = billed;
    UPDATE counter SET last = last + 1 WHERE id = 1 RETURNING last INTO given;
    INSERT INTO invoice (number, order_id, amount) VALUES (given, billed, owed);
END $$;
CREATE PROCEDURE write_review(bought bigint, author bigint, given integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO review (line_id, account_id, stars) VALUES (bought, author, given);
END $$;
CREATE PROCEDURE restock(which bigint, pieces integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE product SET stock = stock + pieces, initial = initial + pieces WHERE id = which;
END $$;
CREATE PROCEDURE make_wish(dreamer bigint, wanted bigint, INOUT has_room boolean) LANGUAGE plpgsql AS $$
DECLARE
    wishes bigint;
BEGIN
    SELECT count(*) INTO wishes FROM wish WHERE account_id = dreamer;
    has_room := wishes < 3;
    IF has_room THEN
        INSERT INTO wish (account_id, product_id) VALUES (dreamer, wanted);
    END IF;
END $$;
