CREATE PROCEDURE place_order(p_customer bigint, p_sku text, p_quantity integer, p_coupon text)
LANGUAGE plpgsql AS $$
DECLARE
    v_price numeric;
    v_stock integer;
    v_percent integer := 0;
    v_order bigint;
BEGIN
    SELECT price, stock INTO v_price, v_stock FROM products WHERE sku = p_sku;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no product %', p_sku;
    END IF;
    IF v_stock < p_quantity THEN
        RAISE EXCEPTION 'sold out';
    END IF;
    IF p_coupon IS NOT NULL THEN
        UPDATE coupons SET uses = uses + 1 WHERE code = p_coupon RETURNING percent INTO v_percent;
    END IF;
    UPDATE products SET stock = stock - p_quantity WHERE sku = p_sku;
    INSERT INTO orders (customer_id, coupon_code, total)
        VALUES (p_customer, p_coupon, p_quantity * v_price * (100 - v_percent) / 100)
        RETURNING id INTO v_order;
    INSERT INTO order_lines VALUES (v_order, p_sku, p_quantity, v_price);
END;
$$;

CREATE PROCEDURE cancel_order(p_order bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_status order_status;
    line record;
BEGIN
    SELECT status INTO v_status FROM orders WHERE id = p_order;
    IF v_status <> 'open' THEN
        RAISE EXCEPTION 'order % is %', p_order, v_status;
    END IF;
    UPDATE orders SET status = 'cancelled' WHERE id = p_order;
    FOR line IN SELECT sku, quantity FROM order_lines WHERE order_id = p_order LOOP
        UPDATE products SET stock = stock + line.quantity WHERE sku = line.sku;
    END LOOP;
END;
$$;

CREATE PROCEDURE ship_order(p_order bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE orders SET status = 'shipped' WHERE id = p_order AND status = 'paid';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'not paid';
    END IF;
END;
$$;

CREATE PROCEDURE pay_with_credit(p_order bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_total numeric;
    v_customer bigint;
BEGIN
    SELECT total, customer_id INTO v_total, v_customer FROM orders WHERE id = p_order AND status = 'open' FOR UPDATE;
    UPDATE customers SET credit = credit - v_total WHERE id = v_customer;
    UPDATE orders SET status = 'paid' WHERE id = p_order;
END;
$$;

CREATE PROCEDURE restock(p_sku text, p_quantity integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE products SET stock = stock + p_quantity WHERE sku = p_sku;
END;
$$;

CREATE PROCEDURE change_price(p_sku text, p_price numeric) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE products SET price = p_price WHERE sku = p_sku;
END;
$$;

CREATE PROCEDURE register(p_email text, p_name text) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO customers (email, name) VALUES (p_email, p_name);
END;
$$;

CREATE PROCEDURE drop_coupon(p_code text) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM coupons WHERE code = p_code;
END;
$$;

CREATE FUNCTION order_history(p_customer bigint) RETURNS TABLE (order_id bigint, sku text, quantity integer)
LANGUAGE sql STABLE AS $$
    SELECT o.id, l.sku, l.quantity FROM orders o JOIN order_lines l ON l.order_id = o.id
    WHERE o.customer_id = p_customer ORDER BY o.placed_at DESC;
$$;
