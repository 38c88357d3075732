-- The row is held from its reading on: an exclusive claim.
CREATE PROCEDURE enter(IN writer integer, IN book integer)
LANGUAGE plpgsql
AS $$
DECLARE
    before bigint;
BEGIN
    SELECT entries INTO STRICT before FROM ledger WHERE id = book FOR UPDATE;
    INSERT INTO entry (customer, ledger, after) VALUES (writer, book, before);
    UPDATE ledger SET entries = entries + 1 WHERE id = book;
END;
$$;

-- A shared claim on the topic, which close may delete.
CREATE PROCEDURE say(IN writer integer, IN about integer)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO remark (customer, topic) VALUES (writer, about);
END;
$$;

CREATE PROCEDURE close(IN about integer)
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM topic WHERE id = about;
END;
$$;

-- Of all who come at once each takes another task.
CREATE PROCEDURE take(IN worker integer, IN of_queue integer, OUT got bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM task
     WHERE queue = of_queue AND id = (SELECT min(id) FROM task WHERE queue = of_queue)
    RETURNING id INTO got;
    IF FOUND THEN
        INSERT INTO taken (worker, queue, id) VALUES (worker, of_queue, got);
    END IF;
END;
$$;

CREATE PROCEDURE put(IN of_queue integer)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO task (queue) VALUES (of_queue);
END;
$$;
