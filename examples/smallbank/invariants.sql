-- The savings' bound is a CHECK in schema.sql; what it cannot say is here.

-- A customer has both accounts.
CREATE ASSERTION customer_has_savings CHECK (NOT EXISTS (
    SELECT 1
      FROM accounts
     WHERE NOT EXISTS (SELECT 1 FROM savings WHERE savings.customer_id = accounts.customer_id)));

CREATE ASSERTION customer_has_checking CHECK (NOT EXISTS (
    SELECT 1
      FROM accounts
     WHERE NOT EXISTS (SELECT 1 FROM checking WHERE checking.customer_id = accounts.customer_id)));
