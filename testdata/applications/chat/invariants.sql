CREATE ASSERTION member_counts CHECK (NOT EXISTS (SELECT 1 FROM rooms r WHERE r.member_count <> (SELECT count(*) FROM members m WHERE m.room_id = r.id)));
CREATE ASSERTION message_numbers CHECK (NOT EXISTS (SELECT 1 FROM rooms r WHERE r.last_message_no <> (SELECT coalesce(max(m.no),0) FROM messages m WHERE m.room_id = r.id)));
