-- SmallBank: its five transactions, and the payment from one customer to another that later versions add.
-- Loads unchanged in PostgreSQL 15.

-- What a customer has, both accounts together.
CREATE PROCEDURE balance(IN customer bigint, OUT total numeric)
LANGUAGE plpgsql
AS $$
BEGIN
    SELECT savings.balance + checking.balance
      INTO STRICT total
      FROM savings
      JOIN checking ON checking.customer_id = savings.customer_id
     WHERE savings.customer_id = customer;
END;
$$;

CREATE PROCEDURE deposit_checking(IN customer bigint, IN amount numeric)
LANGUAGE plpgsql
AS $$
BEGIN
    IF amount < 0 THEN
        RAISE EXCEPTION 'a deposit is not negative' USING ERRCODE = '22023';
    END IF;
    UPDATE checking SET balance = checking.balance + amount WHERE customer_id = customer;
END;
$$;

-- Into the savings, or out of them: the CHECK refuses to take more than there is.
CREATE PROCEDURE transact_savings(IN customer bigint, IN amount numeric)
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE savings SET balance = savings.balance + amount WHERE customer_id = customer;
END;
$$;

-- Moves everything that one customer has to another one's checking account. Both accounts are held while
-- they are emptied, or what comes in meanwhile would be lost.
CREATE PROCEDURE amalgamate(IN from_customer bigint, IN to_customer bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    saved numeric;
    held  numeric;
BEGIN
    IF from_customer = to_customer THEN
        RAISE EXCEPTION 'there is one customer only' USING ERRCODE = '22023';
    END IF;
    SELECT savings.balance INTO STRICT saved FROM savings WHERE customer_id = from_customer FOR UPDATE;
    SELECT checking.balance INTO STRICT held FROM checking WHERE customer_id = from_customer FOR UPDATE;

    UPDATE savings SET balance = 0 WHERE customer_id = from_customer;
    UPDATE checking SET balance = 0 WHERE customer_id = from_customer;
    UPDATE checking SET balance = checking.balance + saved + held WHERE customer_id = to_customer;
END;
$$;

-- A check above what both accounts have together is honoured, at a penalty of 1.
CREATE PROCEDURE write_check(IN customer bigint, IN amount numeric)
LANGUAGE plpgsql
AS $$
DECLARE
    total numeric;
BEGIN
    SELECT savings.balance + checking.balance
      INTO STRICT total
      FROM savings
      JOIN checking ON checking.customer_id = savings.customer_id
     WHERE savings.customer_id = customer;

    IF total < amount THEN
        UPDATE checking SET balance = checking.balance - (amount + 1) WHERE customer_id = customer;
    ELSE
        UPDATE checking SET balance = checking.balance - amount WHERE customer_id = customer;
    END IF;
END;
$$;

-- From one checking account to another, if it is covered when it is asked for.
CREATE PROCEDURE send_payment(IN from_customer bigint, IN to_customer bigint, IN amount numeric)
LANGUAGE plpgsql
AS $$
DECLARE
    held numeric;
BEGIN
    SELECT checking.balance INTO STRICT held FROM checking WHERE customer_id = from_customer;
    IF held < amount THEN
        RAISE EXCEPTION 'the customer has too little to send' USING ERRCODE = 'SB001';
    END IF;
    UPDATE checking SET balance = checking.balance - amount WHERE customer_id = from_customer;
    UPDATE checking SET balance = checking.balance + amount WHERE customer_id = to_customer;
END;
$$;
