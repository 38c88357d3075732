-- That an auction is closed once, and by a bid on it, are keys in schema.sql; the rest is here.

CREATE ASSERTION bids_are_counted CHECK (NOT EXISTS (
    SELECT 1
      FROM auctions
     WHERE bid_count <> (SELECT count(*) FROM bids WHERE bids.auction_id = auctions.id)));

CREATE ASSERTION top_bid_is_the_highest CHECK (NOT EXISTS (
    SELECT 1
      FROM auctions
     WHERE top_bid <> coalesce((SELECT max(amount) FROM bids WHERE bids.auction_id = auctions.id), 0)));

CREATE ASSERTION sold_for_what_was_bid CHECK (NOT EXISTS (
    SELECT 1
      FROM sales
      JOIN bids ON bids.auction_id = sales.auction_id AND bids.id = sales.bid_id
     WHERE bids.amount <> sales.price));
