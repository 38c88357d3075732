-- One sale, wherever the customer lives.
CREATE PROCEDURE buy(IN buyer integer, IN wanted integer)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE stock SET n = n - 1 WHERE id = wanted;
    INSERT INTO sales (customer, item) VALUES (buyer, wanted);
END;
$$;

-- Two goods, which may lie on different shards: at least one of these prepares.
CREATE PROCEDURE buy_both(IN buyer integer, IN one integer, IN other integer)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE stock SET n = n - 1 WHERE id = one;
    UPDATE stock SET n = n - 1 WHERE id = other;
    INSERT INTO sales (customer, item) VALUES (buyer, one);
    INSERT INTO sales (customer, item) VALUES (buyer, other);
END;
$$;
