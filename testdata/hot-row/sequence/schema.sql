-- Order numbers without gaps, all of one district. Loads unchanged in PostgreSQL 15.

CREATE TABLE district (
    id   integer NOT NULL,
    next bigint  NOT NULL,
    PRIMARY KEY (id)
);
COMMENT ON TABLE district IS 'weir: partition by (id)';

CREATE TABLE orders (
    customer integer NOT NULL,
    district integer NOT NULL,
    number   bigint  NOT NULL,
    PRIMARY KEY (customer, district, number)
);
COMMENT ON TABLE orders IS 'weir: partition by (customer)';
CREATE INDEX orders_of_district ON orders (district, number);
