-- RUBiS: what the keys and CHECKs of schema.sql cannot say. What is bid on, bought or commented on is an
-- auction that runs or has ended.

CREATE ASSERTION bid_is_on_an_item CHECK (NOT EXISTS (
    SELECT 1
      FROM bids
     WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.id = bids.item_id)
       AND NOT EXISTS (SELECT 1 FROM old_items WHERE old_items.id = bids.item_id)));

CREATE ASSERTION purchase_is_of_an_item CHECK (NOT EXISTS (
    SELECT 1
      FROM buy_now
     WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.id = buy_now.item_id)
       AND NOT EXISTS (SELECT 1 FROM old_items WHERE old_items.id = buy_now.item_id)));

CREATE ASSERTION comment_is_on_an_item CHECK (NOT EXISTS (
    SELECT 1
      FROM comments
     WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.id = comments.item_id)
       AND NOT EXISTS (SELECT 1 FROM old_items WHERE old_items.id = comments.item_id)));
