-- Local: all that meets it is routed by the same cell.
CREATE PROCEDURE change_cell(IN cell_id bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE cell SET n = n + 1 WHERE id = cell_id;
END;
$$;

-- Global: a range of rows, which no parameter routes.
CREATE PROCEDURE change_totals(IN first_id integer, IN last_id integer)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE total SET n = n + 1 WHERE id >= first_id AND id <= last_id;
END;
$$;
