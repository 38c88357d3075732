-- The bounds are CHECKs in schema.sql; that the counters count what they say is here.

CREATE ASSERTION sold_is_what_tickets_say CHECK (NOT EXISTS (
    SELECT 1
      FROM events
     WHERE sold <> coalesce((SELECT sum(seats) FROM tickets WHERE event_id = events.id), 0)));

CREATE ASSERTION revenue_is_what_was_paid CHECK (NOT EXISTS (
    SELECT 1
      FROM events
     WHERE revenue <> coalesce((SELECT sum(paid) FROM tickets WHERE event_id = events.id), 0)));
