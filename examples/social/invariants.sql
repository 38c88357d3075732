-- The constraints are in schema.sql; what they cannot say is here.

-- Whose friend somebody is, is a friend of his.
CREATE ASSERTION friends_are_mutual CHECK (NOT EXISTS (
    SELECT 1
      FROM friends AS one
     WHERE NOT EXISTS (SELECT 1 FROM friends AS other
                        WHERE other.user_id = one.friend_id AND other.friend_id = one.user_id)));

-- Nobody is without settings.
CREATE ASSERTION everybody_has_settings CHECK (NOT EXISTS (
    SELECT 1
      FROM users
     WHERE NOT EXISTS (SELECT 1 FROM privacy_settings WHERE privacy_settings.user_id = users.id)));
