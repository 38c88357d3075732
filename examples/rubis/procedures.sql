-- RUBiS: the twenty-six transactions of the auction site's requests. Loads unchanged in PostgreSQL 15.
--
-- A request is not atomic: each of its writes is a transaction of its own, and so is each part of the page
-- about me. Times are parameters, so that the same calls give the same rows anywhere. A page that lists
-- something gets one array for each column.

-- ---------------------------------------------------------------------------------------------------------
-- The seventeen that only read.
-- ---------------------------------------------------------------------------------------------------------

-- 1. The number of the user with this nickname and password; NULL if there is none.
CREATE PROCEDURE authenticate(IN user_nickname text, IN user_password text, OUT user_number bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT users.id
      INTO user_number
      FROM users
     WHERE users.nickname = user_nickname AND users.password = user_password;
END;
$$;

-- 2. All categories.
CREATE PROCEDURE browse_categories(OUT category_ids integer[], OUT category_names text[])
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(categories.id ORDER BY categories.id), array_agg(categories.name ORDER BY categories.id)
      INTO category_ids, category_names
      FROM categories;
END;
$$;

-- 3. All regions.
CREATE PROCEDURE browse_regions(OUT region_ids integer[], OUT region_names text[])
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(regions.id ORDER BY regions.id), array_agg(regions.name ORDER BY regions.id)
      INTO region_ids, region_names
      FROM regions;
END;
$$;

-- 4. A region, given by name, and the categories to browse in it.
CREATE PROCEDURE browse_categories_in_region(
    IN  region_name    text,
    OUT region_id      integer,
    OUT category_ids   integer[],
    OUT category_names text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT regions.id INTO STRICT region_id FROM regions WHERE regions.name = region_name;

    SELECT array_agg(categories.id ORDER BY categories.id), array_agg(categories.name ORDER BY categories.id)
      INTO category_ids, category_names
      FROM categories;
END;
$$;

-- 5. One page of a category's running auctions, those that end first in front.
CREATE PROCEDURE search_items_by_category(
    IN  category_id integer,
    IN  page        integer,
    IN  page_size   integer,
    IN  at          timestamp,
    OUT item_ids    bigint[],
    OUT item_names  text[],
    OUT prices      numeric[],
    OUT top_bids    numeric[],
    OUT bid_counts  integer[],
    OUT end_dates   timestamp[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(found.id ORDER BY found.end_date, found.id),
           array_agg(found.name ORDER BY found.end_date, found.id),
           array_agg(found.initial_price ORDER BY found.end_date, found.id),
           array_agg(found.max_bid ORDER BY found.end_date, found.id),
           array_agg(found.nb_of_bids ORDER BY found.end_date, found.id),
           array_agg(found.end_date ORDER BY found.end_date, found.id)
      INTO item_ids, item_names, prices, top_bids, bid_counts, end_dates
      FROM (SELECT items.id, items.name, items.initial_price, items.max_bid, items.nb_of_bids, items.end_date
              FROM items
             WHERE items.category = category_id AND items.end_date >= at
             ORDER BY items.end_date, items.id
             LIMIT page_size OFFSET page * page_size) AS found;
END;
$$;

-- 6. The same for the items whose sellers live in a region.
CREATE PROCEDURE search_items_by_region(
    IN  category_id integer,
    IN  region_id   integer,
    IN  page        integer,
    IN  page_size   integer,
    IN  at          timestamp,
    OUT item_ids    bigint[],
    OUT item_names  text[],
    OUT prices      numeric[],
    OUT top_bids    numeric[],
    OUT bid_counts  integer[],
    OUT end_dates   timestamp[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(found.id ORDER BY found.end_date, found.id),
           array_agg(found.name ORDER BY found.end_date, found.id),
           array_agg(found.initial_price ORDER BY found.end_date, found.id),
           array_agg(found.max_bid ORDER BY found.end_date, found.id),
           array_agg(found.nb_of_bids ORDER BY found.end_date, found.id),
           array_agg(found.end_date ORDER BY found.end_date, found.id)
      INTO item_ids, item_names, prices, top_bids, bid_counts, end_dates
      FROM (SELECT items.id, items.name, items.initial_price, items.max_bid, items.nb_of_bids, items.end_date
              FROM items
              JOIN users ON users.id = items.seller
             WHERE items.category = category_id AND users.region = region_id AND items.end_date >= at
             ORDER BY items.end_date, items.id
             LIMIT page_size OFFSET page * page_size) AS found;
END;
$$;

-- 7. An item with its seller's nickname; an ended auction's if it is no longer running.
CREATE PROCEDURE view_item(
    IN  item            bigint,
    OUT item_name       text,
    OUT details         text,
    OUT first_price     numeric,
    OUT left_over       integer,
    OUT buy_now_price   numeric,
    OUT bid_count       integer,
    OUT top_bid         numeric,
    OUT started_at      timestamp,
    OUT ends_at         timestamp,
    OUT seller_id       bigint,
    OUT seller_nickname text
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT items.name, items.description, items.initial_price, items.quantity, items.buy_now, items.nb_of_bids,
           items.max_bid, items.start_date, items.end_date, items.seller, users.nickname
      INTO item_name, details, first_price, left_over, buy_now_price, bid_count,
           top_bid, started_at, ends_at, seller_id, seller_nickname
      FROM items
      JOIN users ON users.id = items.seller
     WHERE items.id = item;
    IF FOUND THEN
        RETURN;
    END IF;

    SELECT old_items.name, old_items.description, old_items.initial_price, old_items.quantity,
           old_items.buy_now, old_items.nb_of_bids, old_items.max_bid, old_items.start_date,
           old_items.end_date, old_items.seller, users.nickname
      INTO item_name, details, first_price, left_over, buy_now_price, bid_count,
           top_bid, started_at, ends_at, seller_id, seller_nickname
      FROM old_items
      JOIN users ON users.id = old_items.seller
     WHERE old_items.id = item;
END;
$$;

-- 8. A user, and what others say of this user.
CREATE PROCEDURE view_user(
    IN  user_number     bigint,
    OUT user_nickname   text,
    OUT first_name      text,
    OUT last_name       text,
    OUT mail            text,
    OUT total_rating    integer,
    OUT member_since    timestamp,
    OUT author_names    text[],
    OUT comment_dates   timestamp[],
    OUT comment_ratings integer[],
    OUT comment_texts   text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT users.nickname, users.firstname, users.lastname, users.email, users.rating, users.creation_date
      INTO user_nickname, first_name, last_name, mail, total_rating, member_since
      FROM users
     WHERE users.id = user_number;

    SELECT array_agg(author.nickname ORDER BY comments.date DESC, comments.id),
           array_agg(comments.date ORDER BY comments.date DESC, comments.id),
           array_agg(comments.rating ORDER BY comments.date DESC, comments.id),
           array_agg(comments.comment ORDER BY comments.date DESC, comments.id)
      INTO author_names, comment_dates, comment_ratings, comment_texts
      FROM comments
      JOIN users AS author ON author.id = comments.from_user_id
     WHERE comments.to_user_id = user_number;
END;
$$;

-- 9. All bids on an item, the latest first.
CREATE PROCEDURE view_bid_history(
    IN  item         bigint,
    OUT item_name    text,
    OUT bidder_ids   bigint[],
    OUT bidder_names text[],
    OUT amounts      numeric[],
    OUT bid_dates    timestamp[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT items.name INTO item_name FROM items WHERE items.id = item;
    IF NOT FOUND THEN
        SELECT old_items.name INTO item_name FROM old_items WHERE old_items.id = item;
    END IF;

    SELECT array_agg(bids.user_id ORDER BY bids.date DESC, bids.id),
           array_agg(users.nickname ORDER BY bids.date DESC, bids.id),
           array_agg(bids.bid ORDER BY bids.date DESC, bids.id),
           array_agg(bids.date ORDER BY bids.date DESC, bids.id)
      INTO bidder_ids, bidder_names, amounts, bid_dates
      FROM bids
      JOIN users ON users.id = bids.user_id
     WHERE bids.item_id = item;
END;
$$;

-- 10. The form to buy an item at once: the item, its seller, and the buyer.
CREATE PROCEDURE buy_now_form(
    IN  item            bigint,
    IN  buyer           bigint,
    OUT item_name       text,
    OUT buy_now_price   numeric,
    OUT left_over       integer,
    OUT seller_nickname text,
    OUT buyer_nickname  text
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT users.nickname INTO buyer_nickname FROM users WHERE users.id = buyer;

    SELECT items.name, items.buy_now, items.quantity, users.nickname
      INTO item_name, buy_now_price, left_over, seller_nickname
      FROM items
      JOIN users ON users.id = items.seller
     WHERE items.id = item;
END;
$$;

-- 11. The form to bid: the item with its current price, its seller, and the bidder.
CREATE PROCEDURE bid_form(
    IN  item            bigint,
    IN  bidder          bigint,
    OUT item_name       text,
    OUT lowest_bid      numeric,
    OUT bid_count       integer,
    OUT left_over       integer,
    OUT ends_at         timestamp,
    OUT seller_nickname text,
    OUT bidder_nickname text
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT users.nickname INTO bidder_nickname FROM users WHERE users.id = bidder;

    SELECT items.name, greatest(items.initial_price, items.max_bid), items.nb_of_bids, items.quantity,
           items.end_date, users.nickname
      INTO item_name, lowest_bid, bid_count, left_over, ends_at, seller_nickname
      FROM items
      JOIN users ON users.id = items.seller
     WHERE items.id = item;
END;
$$;

-- 12. The form to comment on somebody after a sale: author, receiver and item.
CREATE PROCEDURE comment_form(
    IN  item              bigint,
    IN  author            bigint,
    IN  receiver          bigint,
    OUT item_name         text,
    OUT author_nickname   text,
    OUT receiver_nickname text
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT users.nickname INTO author_nickname FROM users WHERE users.id = author;
    SELECT users.nickname INTO receiver_nickname FROM users WHERE users.id = receiver;
    SELECT items.name INTO item_name FROM items WHERE items.id = item;
    IF NOT FOUND THEN
        SELECT old_items.name INTO item_name FROM old_items WHERE old_items.id = item;
    END IF;
END;
$$;

-- 13. About me: what I bid on, running and ended, with my best bid beside the best one.
CREATE PROCEDURE my_bids(
    IN  user_number   bigint,
    OUT item_ids      bigint[],
    OUT item_names    text[],
    OUT my_best_bids  numeric[],
    OUT top_bids      numeric[],
    OUT old_item_ids  bigint[],
    OUT old_names     text[],
    OUT old_best_bids numeric[],
    OUT old_top_bids  numeric[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(mine.id ORDER BY mine.id), array_agg(mine.name ORDER BY mine.id),
           array_agg(mine.best ORDER BY mine.id), array_agg(mine.max_bid ORDER BY mine.id)
      INTO item_ids, item_names, my_best_bids, top_bids
      FROM (SELECT items.id, items.name, items.max_bid, max(bids.bid) AS best
              FROM bids
              JOIN items ON items.id = bids.item_id
             WHERE bids.user_id = user_number
             GROUP BY items.id, items.name, items.max_bid) AS mine;

    SELECT array_agg(mine.id ORDER BY mine.id), array_agg(mine.name ORDER BY mine.id),
           array_agg(mine.best ORDER BY mine.id), array_agg(mine.max_bid ORDER BY mine.id)
      INTO old_item_ids, old_names, old_best_bids, old_top_bids
      FROM (SELECT old_items.id, old_items.name, old_items.max_bid, max(bids.bid) AS best
              FROM bids
              JOIN old_items ON old_items.id = bids.item_id
             WHERE bids.user_id = user_number
             GROUP BY old_items.id, old_items.name, old_items.max_bid) AS mine;
END;
$$;

-- 14. About me: what I have on sale, and what I sold.
CREATE PROCEDURE my_items(
    IN  user_number    bigint,
    OUT item_ids       bigint[],
    OUT item_names     text[],
    OUT top_bids       numeric[],
    OUT quantities     integer[],
    OUT end_dates      timestamp[],
    OUT old_item_ids   bigint[],
    OUT old_names      text[],
    OUT old_top_bids   numeric[],
    OUT old_quantities integer[],
    OUT old_end_dates  timestamp[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(items.id ORDER BY items.id), array_agg(items.name ORDER BY items.id),
           array_agg(items.max_bid ORDER BY items.id), array_agg(items.quantity ORDER BY items.id),
           array_agg(items.end_date ORDER BY items.id)
      INTO item_ids, item_names, top_bids, quantities, end_dates
      FROM items
     WHERE items.seller = user_number;

    SELECT array_agg(old_items.id ORDER BY old_items.id), array_agg(old_items.name ORDER BY old_items.id),
           array_agg(old_items.max_bid ORDER BY old_items.id),
           array_agg(old_items.quantity ORDER BY old_items.id),
           array_agg(old_items.end_date ORDER BY old_items.id)
      INTO old_item_ids, old_names, old_top_bids, old_quantities, old_end_dates
      FROM old_items
     WHERE old_items.seller = user_number;
END;
$$;

-- 15. About me: what I won, that is, ended auctions in which mine was the best bid and met the reserve.
CREATE PROCEDURE my_won_items(
    IN  user_number bigint,
    OUT item_ids    bigint[],
    OUT item_names  text[],
    OUT prices      numeric[],
    OUT seller_ids  bigint[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(old_items.id ORDER BY old_items.id), array_agg(old_items.name ORDER BY old_items.id),
           array_agg(old_items.max_bid ORDER BY old_items.id), array_agg(old_items.seller ORDER BY old_items.id)
      INTO item_ids, item_names, prices, seller_ids
      FROM old_items
     WHERE old_items.max_bid >= old_items.reserve_price
       AND EXISTS (SELECT 1 FROM bids
                    WHERE bids.item_id = old_items.id AND bids.user_id = user_number
                      AND bids.bid = old_items.max_bid);
END;
$$;

-- 16. About me: what I bought at once, of running and of ended auctions.
CREATE PROCEDURE my_bought_items(
    IN  user_number    bigint,
    OUT item_ids       bigint[],
    OUT item_names     text[],
    OUT quantities     integer[],
    OUT prices         numeric[],
    OUT bought_at      timestamp[],
    OUT seller_ids     bigint[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(bought.id ORDER BY bought.date DESC, bought.id),
           array_agg(bought.name ORDER BY bought.date DESC, bought.id),
           array_agg(bought.qty ORDER BY bought.date DESC, bought.id),
           array_agg(bought.price ORDER BY bought.date DESC, bought.id),
           array_agg(bought.date ORDER BY bought.date DESC, bought.id),
           array_agg(bought.seller ORDER BY bought.date DESC, bought.id)
      INTO item_ids, item_names, quantities, prices, bought_at, seller_ids
      FROM (SELECT items.id, items.name, items.buy_now AS price, items.seller, buy_now.qty, buy_now.date
              FROM buy_now
              JOIN items ON items.id = buy_now.item_id
             WHERE buy_now.buyer_id = user_number
            UNION ALL
            SELECT old_items.id, old_items.name, old_items.buy_now, old_items.seller, buy_now.qty, buy_now.date
              FROM buy_now
              JOIN old_items ON old_items.id = buy_now.item_id
             WHERE buy_now.buyer_id = user_number) AS bought;
END;
$$;

-- 17. About me: who I am, and what others say of me.
CREATE PROCEDURE my_comments(
    IN  user_number     bigint,
    OUT user_nickname   text,
    OUT total_rating    integer,
    OUT owing           numeric,
    OUT author_names    text[],
    OUT item_ids        bigint[],
    OUT comment_dates   timestamp[],
    OUT comment_ratings integer[],
    OUT comment_texts   text[]
)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT users.nickname, users.rating, users.balance
      INTO user_nickname, total_rating, owing
      FROM users
     WHERE users.id = user_number;

    SELECT array_agg(author.nickname ORDER BY comments.date DESC, comments.id),
           array_agg(comments.item_id ORDER BY comments.date DESC, comments.id),
           array_agg(comments.date ORDER BY comments.date DESC, comments.id),
           array_agg(comments.rating ORDER BY comments.date DESC, comments.id),
           array_agg(comments.comment ORDER BY comments.date DESC, comments.id)
      INTO author_names, item_ids, comment_dates, comment_ratings, comment_texts
      FROM comments
      JOIN users AS author ON author.id = comments.from_user_id
     WHERE comments.to_user_id = user_number;
END;
$$;

-- ---------------------------------------------------------------------------------------------------------
-- The nine that write.
-- ---------------------------------------------------------------------------------------------------------

-- 18. A new user, who chooses a nickname and names the region.
CREATE PROCEDURE register_user(
    IN  first_name    text,
    IN  last_name     text,
    IN  user_nickname text,
    IN  user_password text,
    IN  mail          text,
    IN  region_name   text,
    IN  at            timestamp,
    OUT user_number   bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    region_id integer;
BEGIN
    SELECT regions.id INTO STRICT region_id FROM regions WHERE regions.name = region_name;

    INSERT INTO users (firstname, lastname, nickname, password, email, rating, balance, creation_date, region)
    VALUES (first_name, last_name, user_nickname, user_password, mail, 0, 0, at, region_id)
    RETURNING users.id INTO user_number;
END;
$$;

-- 19. A new item on sale, for so many days.
CREATE PROCEDURE register_item(
    IN  seller_id     bigint,
    IN  category_id   integer,
    IN  item_name     text,
    IN  details       text,
    IN  first_price   numeric,
    IN  reserve       numeric,
    IN  buy_now_price numeric,
    IN  quantity_sold integer,
    IN  days          integer,
    IN  at            timestamp,
    OUT item          bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    IF quantity_sold < 1 OR days < 1 THEN
        RAISE EXCEPTION 'nothing is on sale' USING ERRCODE = '22023';
    END IF;

    INSERT INTO items (name, description, initial_price, quantity, reserve_price, buy_now, nb_of_bids, max_bid,
                       start_date, end_date, seller, category)
    VALUES (item_name, details, first_price, quantity_sold, reserve, buy_now_price, 0, 0,
            at, at + days * interval '1 day', seller_id, category_id)
    RETURNING items.id INTO item;
END;
$$;

-- 20. A bid, first half: the bid itself. The form says what the lowest one was.
CREATE PROCEDURE store_bid(
    IN  item       bigint,
    IN  bidder     bigint,
    IN  pieces     integer,
    IN  amount     numeric,
    IN  upper      numeric,
    IN  lowest_bid numeric,
    IN  at         timestamp,
    OUT bid_number bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    IF amount < lowest_bid THEN
        RAISE EXCEPTION 'the bid is below the lowest one' USING ERRCODE = '22023';
    END IF;

    INSERT INTO bids (user_id, item_id, qty, bid, max_bid, date)
    VALUES (bidder, item, pieces, amount, upper, at)
    RETURNING bids.id INTO bid_number;
END;
$$;

-- 21. A bid, second half: the item has one more, and its best one may be this.
CREATE PROCEDURE raise_item(IN item bigint, IN amount numeric)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE items
       SET nb_of_bids = nb_of_bids + 1,
           max_bid = greatest(max_bid, amount)
     WHERE items.id = item;
END;
$$;

-- 22. A purchase, first part: so many pieces are gone, and they must have been there.
CREATE PROCEDURE take_pieces(IN item bigint, IN pieces integer, OUT left_over integer)
LANGUAGE plpgsql
AS $$
BEGIN
    IF pieces < 1 THEN
        RAISE EXCEPTION 'nothing is bought' USING ERRCODE = '22023';
    END IF;

    UPDATE items
       SET quantity = quantity - pieces
     WHERE items.id = item
    RETURNING items.quantity INTO STRICT left_over;
END;
$$;

-- 23. A purchase, second part: an item of which nothing is left ends now.
CREATE PROCEDURE close_item(IN item bigint, IN at timestamp)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE items
       SET end_date = at
     WHERE items.id = item AND items.quantity = 0;
END;
$$;

-- 24. A purchase, third part: who bought how many.
CREATE PROCEDURE store_buy_now(
    IN  item            bigint,
    IN  buyer           bigint,
    IN  pieces          integer,
    IN  at              timestamp,
    OUT purchase_number bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO buy_now (buyer_id, item_id, qty, date)
    VALUES (buyer, item, pieces, at)
    RETURNING buy_now.id INTO purchase_number;
END;
$$;

-- 25. A comment, first half: the comment itself.
CREATE PROCEDURE store_comment(
    IN  author         bigint,
    IN  receiver       bigint,
    IN  item           bigint,
    IN  stars          integer,
    IN  words          text,
    IN  at             timestamp,
    OUT comment_number bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO comments (from_user_id, to_user_id, item_id, rating, date, comment)
    VALUES (author, receiver, item, stars, at, words)
    RETURNING comments.id INTO comment_number;
END;
$$;

-- 26. A comment, second half: the receiver's rating goes up or down by it.
CREATE PROCEDURE change_rating(IN receiver bigint, IN stars integer)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE users SET rating = users.rating + stars WHERE users.id = receiver;
END;
$$;
