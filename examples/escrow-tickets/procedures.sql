-- What a box office and its doors do. Loads unchanged in PostgreSQL 15.

CREATE PROCEDURE open_event(
    IN  event_title text,
    IN  seat_price  numeric,
    IN  seats       integer,
    OUT event       bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO events (title, price, capacity)
    VALUES (event_title, seat_price, seats)
    RETURNING id INTO event;
END;
$$;

-- The hot row: every purchase adds to the event's counter, and the counter has a bound.
CREATE PROCEDURE buy(
    IN  event      bigint,
    IN  buyer_name text,
    IN  wanted     integer,
    IN  at         timestamp,
    OUT ticket     bigint,
    OUT to_pay     numeric
)
LANGUAGE plpgsql
AS $$
DECLARE
    seat_price numeric;
BEGIN
    IF wanted <= 0 THEN
        RAISE EXCEPTION 'that is no seat' USING ERRCODE = '22023';
    END IF;
    SELECT price INTO STRICT seat_price FROM events WHERE id = event;
    to_pay := seat_price * wanted;

    UPDATE events
       SET sold = sold + wanted,
           revenue = revenue + to_pay
     WHERE id = event;

    INSERT INTO tickets (event_id, buyer, seats, paid, sold_at)
    VALUES (event, buyer_name, wanted, to_pay, at)
    RETURNING id INTO ticket;
END;
$$;

-- Gives the seats back. Of two refunds of one ticket at once, one finds it gone.
CREATE PROCEDURE refund(IN event bigint, IN ticket bigint, OUT paid_back numeric)
LANGUAGE plpgsql
AS $$
DECLARE
    free integer;
BEGIN
    DELETE FROM tickets
     WHERE event_id = event AND id = ticket
    RETURNING seats, paid INTO free, paid_back;
    IF FOUND THEN
        UPDATE events
           SET sold = sold - free,
               revenue = revenue - paid_back
         WHERE id = event;
    END IF;
END;
$$;

-- A larger hall. There is no smaller one.
CREATE PROCEDURE add_seats(IN event bigint, IN seats_added integer)
LANGUAGE plpgsql
AS $$
BEGIN
    IF seats_added <= 0 THEN
        RAISE EXCEPTION 'that is no seat' USING ERRCODE = '22023';
    END IF;
    UPDATE events SET capacity = capacity + seats_added WHERE id = event;
END;
$$;

CREATE PROCEDURE availability(IN event bigint, OUT free_seats integer, OUT seat_price numeric)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT capacity - sold, price INTO free_seats, seat_price FROM events WHERE id = event;
END;
$$;

CREATE PROCEDURE guest_list(IN event bigint, OUT buyers text[], OUT seat_counts integer[])
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(tickets.buyer ORDER BY tickets.id), array_agg(tickets.seats ORDER BY tickets.id)
      INTO buyers, seat_counts
      FROM tickets
     WHERE tickets.event_id = event;
END;
$$;

CREATE PROCEDURE enter(IN house bigint, IN people integer)
LANGUAGE plpgsql
AS $$
BEGIN
    IF people <= 0 THEN
        RAISE EXCEPTION 'that is nobody' USING ERRCODE = '22023';
    END IF;
    UPDATE houses SET inside = inside + people WHERE id = house;
END;
$$;

CREATE PROCEDURE leave(IN house bigint, IN people integer)
LANGUAGE plpgsql
AS $$
BEGIN
    IF people <= 0 THEN
        RAISE EXCEPTION 'that is nobody' USING ERRCODE = '22023';
    END IF;
    UPDATE houses SET inside = inside - people WHERE id = house;
END;
$$;
