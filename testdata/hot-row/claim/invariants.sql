CREATE ASSERTION ledger_counts_entries CHECK (NOT EXISTS (
    SELECT 1
      FROM ledger
     WHERE entries <> (SELECT count(*) FROM entry WHERE entry.ledger = ledger.id)));
