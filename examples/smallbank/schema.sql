-- SmallBank: customers with a savings and a checking account each. Loads unchanged in PostgreSQL 15.

CREATE TABLE accounts (
    customer_id bigint      NOT NULL,
    name        varchar(64) NOT NULL,
    PRIMARY KEY (customer_id)
);
COMMENT ON TABLE accounts IS 'weir: partition by (customer_id)';

CREATE TABLE savings (
    customer_id bigint        NOT NULL,
    balance     numeric(12,2) NOT NULL,
    PRIMARY KEY (customer_id),
    CONSTRAINT savings_have_an_account FOREIGN KEY (customer_id) REFERENCES accounts (customer_id),
    CONSTRAINT savings_are_not_overdrawn CHECK (balance >= 0)
);
COMMENT ON TABLE savings IS 'weir: partition by (customer_id)';

-- May be overdrawn, at a penalty.
CREATE TABLE checking (
    customer_id bigint        NOT NULL,
    balance     numeric(12,2) NOT NULL,
    PRIMARY KEY (customer_id),
    CONSTRAINT checking_has_an_account FOREIGN KEY (customer_id) REFERENCES accounts (customer_id)
);
COMMENT ON TABLE checking IS 'weir: partition by (customer_id)';
