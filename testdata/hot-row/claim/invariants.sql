CREATE ASSERTION ledger_counts_entries CHECK (NOT EXISTS (
    SELECT 1
      FROM ledger
     WHERE entries <> (SELECT count(*) FROM entry WHERE entry.ledger = ledger.id)));

CREATE ASSERTION each_task_is_taken_once CHECK (NOT EXISTS (
    SELECT 1
      FROM taken AS one, taken AS other
     WHERE one.queue = other.queue AND one.id = other.id AND one.worker <> other.worker));
