-- transaction: create_room(owner, name)
INSERT INTO rooms (name, owner_id, member_count) VALUES (:name, :owner, 1) RETURNING id;

-- transaction: join_room(room, usr)
INSERT INTO members (room_id, user_id, role) SELECT :room, :usr, 'member' WHERE NOT EXISTS (SELECT 1 FROM bans WHERE room_id = :room AND user_id = :usr);
UPDATE rooms SET member_count = member_count + 1 WHERE id = :room;

-- transaction: leave_room(room, usr)
DELETE FROM members WHERE room_id = :room AND user_id = :usr AND role <> 'owner';
UPDATE rooms SET member_count = member_count - 1 WHERE id = :room;

-- transaction: ban(room, usr, until timestamptz)
INSERT INTO bans VALUES (:room, :usr, :until) ON CONFLICT (room_id, user_id) DO UPDATE SET until = excluded.until;
DELETE FROM members WHERE room_id = :room AND user_id = :usr;

-- transaction: transfer_ownership(room, old, new)
UPDATE members SET role = 'moderator' WHERE room_id = :room AND user_id = :old AND role = 'owner';
UPDATE members SET role = 'owner' WHERE room_id = :room AND user_id = :new;
UPDATE rooms SET owner_id = :new WHERE id = :room;

-- transaction: post(room, author, body)
UPDATE rooms SET last_message_no = last_message_no + 1 WHERE id = :room RETURNING last_message_no;
INSERT INTO messages (room_id, no, author_id, body) VALUES (:room, (SELECT last_message_no FROM rooms WHERE id = :room), :author, :body);

-- transaction: edit(room, no, body)
UPDATE messages SET body = :body, edited = true WHERE room_id = :room AND no = :no;

-- transaction: react(room, no, usr, emoji)
INSERT INTO reactions VALUES (:room, :no, :usr, :emoji) ON CONFLICT DO NOTHING;

-- transaction: mark_read(room, usr, no)
UPDATE members SET last_read = greatest(last_read, :no) WHERE room_id = :room AND user_id = :usr;

-- transaction: unread(usr)
SELECT m.room_id, r.last_message_no - m.last_read FROM members m JOIN rooms r ON r.id = m.room_id WHERE m.user_id = :usr;

-- transaction: delete_room(room)
DELETE FROM rooms WHERE id = :room;
