-- The order is placed with its customer, its number comes from its district.
CREATE PROCEDURE place(IN buyer integer, IN place integer, OUT given bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE district SET next = next + 1 WHERE id = place RETURNING next - 1 INTO given;
    INSERT INTO orders (customer, district, number) VALUES (buyer, place, given);
END;
$$;
