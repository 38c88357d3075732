-- What the members of a social network do. Loads unchanged in PostgreSQL 15.

-- Two people who choose one name at once: a claim on the name decides.
CREATE PROCEDURE sign_up(
    IN  wanted_name text,
    IN  person_name text,
    IN  at          timestamp,
    OUT member      bigint
)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO users (username, full_name, joined_at)
    VALUES (wanted_name, person_name, at)
    RETURNING id INTO member;

    INSERT INTO privacy_settings (user_id, posts_visible, comments_allowed, friends_visible)
    VALUES (member, 1, 1, 1);
END;
$$;

CREATE PROCEDURE change_username(IN member bigint, IN wanted_name text)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE users SET username = wanted_name WHERE id = member;
END;
$$;

-- Both rows or none: nobody ever sees that Sam is a friend of Mary and Mary none of Sam's.
CREATE PROCEDURE befriend(IN member bigint, IN other bigint, IN at timestamp)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO friends (user_id, friend_id, since)
    VALUES (member, other, at)
    ON CONFLICT (user_id, friend_id) DO NOTHING;

    INSERT INTO friends (user_id, friend_id, since)
    VALUES (other, member, at)
    ON CONFLICT (user_id, friend_id) DO NOTHING;
END;
$$;

CREATE PROCEDURE unfriend(IN member bigint, IN other bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM friends WHERE user_id = member AND friend_id = other;
    DELETE FROM friends WHERE user_id = other AND friend_id = member;
END;
$$;

-- The settings bound each other, so they are written together.
CREATE PROCEDURE set_privacy(
    IN member         bigint,
    IN posts_level    integer,
    IN comments_level integer,
    IN friends_level  integer
)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE privacy_settings
       SET posts_visible = posts_level,
           comments_allowed = comments_level,
           friends_visible = friends_level
     WHERE user_id = member;
END;
$$;

CREATE PROCEDURE write_post(IN member bigint, IN words text, IN at timestamp, OUT post bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO posts (author_id, body, posted_at)
    VALUES (member, words, at)
    RETURNING id INTO post;
END;
$$;

-- Only whom the author lets comment; the settings and the friendship are read together.
CREATE PROCEDURE write_comment(
    IN  member  bigint,
    IN  post    bigint,
    IN  words   text,
    IN  at      timestamp,
    OUT comment bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    author  bigint;
    allowed integer;
BEGIN
    SELECT author_id, comments_allowed
      INTO author, allowed
      FROM posts
      JOIN privacy_settings ON user_id = author_id
     WHERE posts.id = post;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no such post' USING ERRCODE = 'SO001';
    END IF;
    IF member <> author
       AND (allowed = 0
            OR (allowed = 1 AND NOT EXISTS (SELECT 1 FROM friends
                                             WHERE user_id = author AND friend_id = member))) THEN
        RAISE EXCEPTION 'the author does not let this member comment' USING ERRCODE = 'SO002';
    END IF;

    INSERT INTO comments (post_id, author_id, body, commented_at)
    VALUES (post, member, words, at)
    RETURNING id INTO comment;
END;
$$;

-- Its comments go with it.
CREATE PROCEDURE delete_post(IN member bigint, IN post bigint)
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM posts WHERE id = post AND author_id = member;
END;
$$;

-- What a visitor sees of a member: as much as the settings let a friend, or anybody, see.
CREATE PROCEDURE view_profile(
    IN  visitor     bigint,
    IN  member      bigint,
    OUT member_name text,
    OUT friend_ids  bigint[],
    OUT post_ids    bigint[],
    OUT bodies      text[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    posts_level   integer;
    friends_level integer;
    near          integer := 2;
BEGIN
    SELECT username, posts_visible, friends_visible
      INTO member_name, posts_level, friends_level
      FROM users
      JOIN privacy_settings ON user_id = users.id
     WHERE users.id = member;

    IF visitor = member THEN
        near := 0;
    ELSIF EXISTS (SELECT 1 FROM friends WHERE user_id = member AND friend_id = visitor) THEN
        near := 1;
    END IF;

    IF friends_level >= near THEN
        SELECT array_agg(friend_id ORDER BY friend_id) INTO friend_ids FROM friends WHERE user_id = member;
    END IF;

    IF posts_level >= near THEN
        SELECT array_agg(latest.id ORDER BY latest.posted_at DESC, latest.id),
               array_agg(latest.body ORDER BY latest.posted_at DESC, latest.id)
          INTO post_ids, bodies
          FROM (SELECT posts.id, posts.body, posts.posted_at
                  FROM posts
                 WHERE posts.author_id = member
                 ORDER BY posts.posted_at DESC, posts.id
                 LIMIT 20) AS latest;
    END IF;
END;
$$;

-- The friends that two members have in common.
CREATE PROCEDURE common_friends(IN member bigint, IN other bigint, OUT friend_ids bigint[])
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT array_agg(mine.friend_id ORDER BY mine.friend_id)
      INTO friend_ids
      FROM friends AS mine
      JOIN friends AS theirs ON theirs.friend_id = mine.friend_id
     WHERE mine.user_id = member AND theirs.user_id = other;
END;
$$;
