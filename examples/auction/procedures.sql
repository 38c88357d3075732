-- What sellers and bidders do. Loads unchanged in PostgreSQL 15.

CREATE PROCEDURE open_auction(
    IN  seller_name text,
    IN  what        text,
    IN  lowest      numeric,
    IN  until       timestamp,
    OUT auction     bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO auctions (seller, title, min_price, ends_at)
    VALUES (seller_name, what, lowest, until)
    RETURNING id INTO auction;
END;
$$;

-- Bids do not wait for each other: a bid below another one is a bid too. One below the lowest price, or
-- after the auction's end, is refused.
CREATE PROCEDURE place_bid(
    IN  auction     bigint,
    IN  bidder_name text,
    IN  offer       numeric,
    IN  at          timestamp,
    OUT bid         bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    lowest numeric;
    until  timestamp;
BEGIN
    SELECT min_price, ends_at INTO STRICT lowest, until FROM auctions WHERE id = auction;
    IF offer < lowest OR at > until THEN
        RAISE EXCEPTION 'the offer is too low or too late' USING ERRCODE = 'AU001';
    END IF;

    INSERT INTO bids (auction_id, bidder, amount, bid_at)
    VALUES (auction, bidder_name, offer, at)
    RETURNING id INTO bid;

    UPDATE auctions
       SET bid_count = bid_count + 1,
           top_bid = greatest(top_bid, offer)
     WHERE id = auction;
END;
$$;

-- Takes the best bid, the earliest of equal ones. An auction without a bid stays open.
CREATE PROCEDURE close_auction(
    IN  auction    bigint,
    IN  at         timestamp,
    OUT winner     text,
    OUT sale_price numeric
)
LANGUAGE plpgsql
AS $$
DECLARE
    best bigint;
BEGIN
    SELECT id, bidder, amount
      INTO best, winner, sale_price
      FROM bids
     WHERE auction_id = auction
     ORDER BY amount DESC, id
     LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'nobody bid on this auction' USING ERRCODE = 'AU002';
    END IF;

    INSERT INTO sales (auction_id, bid_id, price, closed_at)
    VALUES (auction, best, sale_price, at);
END;
$$;

CREATE PROCEDURE view_auction(
    IN  auction    bigint,
    OUT what       text,
    OUT lowest     numeric,
    OUT bids_so_far integer,
    OUT best_so_far numeric,
    OUT until      timestamp,
    OUT sold_for   numeric
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT auctions.title, auctions.min_price, auctions.bid_count, auctions.top_bid, auctions.ends_at,
           sales.price
      INTO what, lowest, bids_so_far, best_so_far, until, sold_for
      FROM auctions
      LEFT JOIN sales ON sales.auction_id = auctions.id
     WHERE auctions.id = auction;
END;
$$;

CREATE PROCEDURE bid_history(IN auction bigint, OUT bidders text[], OUT offers numeric[], OUT times timestamp[])
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(bids.bidder ORDER BY bids.amount DESC, bids.id),
           array_agg(bids.amount ORDER BY bids.amount DESC, bids.id),
           array_agg(bids.bid_at ORDER BY bids.amount DESC, bids.id)
      INTO bidders, offers, times
      FROM bids
     WHERE bids.auction_id = auction;
END;
$$;
