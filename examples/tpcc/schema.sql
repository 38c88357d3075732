-- TPC-C, clause 1.3: the nine tables with every column. Loads unchanged in PostgreSQL 15.
--
-- Types: clause 1.3.1 asks for room for so many digits; whole numbers are integers here, money and
-- rates are numeric. Keys and foreign keys are those of clause 1.4 (HISTORY has no primary key).
-- Every table but ITEM is partitioned by its warehouse; HISTORY by the warehouse that was paid, which
-- for 15% of the payments is not the customer's.

CREATE TABLE warehouse (
    w_id        integer       NOT NULL,
    w_name      varchar(10)   NOT NULL,
    w_street_1  varchar(20)   NOT NULL,
    w_street_2  varchar(20)   NOT NULL,
    w_city      varchar(20)   NOT NULL,
    w_state     char(2)       NOT NULL,
    w_zip       char(9)       NOT NULL,
    w_tax       numeric(4,4)  NOT NULL,
    w_ytd       numeric(12,2) NOT NULL,
    PRIMARY KEY (w_id)
);
COMMENT ON TABLE warehouse IS 'weir: partition by (w_id)';

CREATE TABLE item (
    i_id    integer      NOT NULL,
    i_im_id integer      NOT NULL,
    i_name  varchar(24)  NOT NULL,
    i_price numeric(5,2) NOT NULL,
    i_data  varchar(50)  NOT NULL,
    PRIMARY KEY (i_id)
);
COMMENT ON TABLE item IS 'weir: replicated';

CREATE TABLE district (
    d_id        integer       NOT NULL,
    d_w_id      integer       NOT NULL,
    d_name      varchar(10)   NOT NULL,
    d_street_1  varchar(20)   NOT NULL,
    d_street_2  varchar(20)   NOT NULL,
    d_city      varchar(20)   NOT NULL,
    d_state     char(2)       NOT NULL,
    d_zip       char(9)       NOT NULL,
    d_tax       numeric(4,4)  NOT NULL,
    d_ytd       numeric(12,2) NOT NULL,
    d_next_o_id integer       NOT NULL,
    PRIMARY KEY (d_w_id, d_id),
    FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)
);
COMMENT ON TABLE district IS 'weir: partition by (d_w_id)';

CREATE TABLE stock (
    s_i_id       integer     NOT NULL,
    s_w_id       integer     NOT NULL,
    s_quantity   integer     NOT NULL,
    s_dist_01    char(24)    NOT NULL,
    s_dist_02    char(24)    NOT NULL,
    s_dist_03    char(24)    NOT NULL,
    s_dist_04    char(24)    NOT NULL,
    s_dist_05    char(24)    NOT NULL,
    s_dist_06    char(24)    NOT NULL,
    s_dist_07    char(24)    NOT NULL,
    s_dist_08    char(24)    NOT NULL,
    s_dist_09    char(24)    NOT NULL,
    s_dist_10    char(24)    NOT NULL,
    s_ytd        integer     NOT NULL,
    s_order_cnt  integer     NOT NULL,
    s_remote_cnt integer     NOT NULL,
    s_data       varchar(50) NOT NULL,
    PRIMARY KEY (s_w_id, s_i_id),
    FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id),
    FOREIGN KEY (s_i_id) REFERENCES item (i_id)
);
COMMENT ON TABLE stock IS 'weir: partition by (s_w_id)';

CREATE TABLE customer (
    c_id           integer       NOT NULL,
    c_d_id         integer       NOT NULL,
    c_w_id         integer       NOT NULL,
    c_first        varchar(16)   NOT NULL,
    c_middle       char(2)       NOT NULL,
    c_last         varchar(16)   NOT NULL,
    c_street_1     varchar(20)   NOT NULL,
    c_street_2     varchar(20)   NOT NULL,
    c_city         varchar(20)   NOT NULL,
    c_state        char(2)       NOT NULL,
    c_zip          char(9)       NOT NULL,
    c_phone        char(16)      NOT NULL,
    c_since        timestamp     NOT NULL,
    c_credit       char(2)       NOT NULL,
    c_credit_lim   numeric(12,2) NOT NULL,
    c_discount     numeric(4,4)  NOT NULL,
    c_balance      numeric(12,2) NOT NULL,
    c_ytd_payment  numeric(12,2) NOT NULL,
    c_payment_cnt  integer       NOT NULL,
    c_delivery_cnt integer       NOT NULL,
    c_data         varchar(500)  NOT NULL,
    PRIMARY KEY (c_w_id, c_d_id, c_id),
    FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)
);
COMMENT ON TABLE customer IS 'weir: partition by (c_w_id)';

-- Payment and Order-Status find 60% of their customers by last name, sorted by first name.
CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);

CREATE TABLE orders (
    o_id         integer   NOT NULL,
    o_d_id       integer   NOT NULL,
    o_w_id       integer   NOT NULL,
    o_c_id       integer   NOT NULL,
    o_entry_d    timestamp NOT NULL,
    o_carrier_id integer,
    o_ol_cnt     integer   NOT NULL,
    o_all_local  integer   NOT NULL,
    PRIMARY KEY (o_w_id, o_d_id, o_id),
    FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)
);
COMMENT ON TABLE orders IS 'weir: partition by (o_w_id)';

-- Order-Status asks for a customer's latest order; conditions 10 and 12 for all of them.
CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);

CREATE TABLE new_order (
    no_o_id integer NOT NULL,
    no_d_id integer NOT NULL,
    no_w_id integer NOT NULL,
    PRIMARY KEY (no_w_id, no_d_id, no_o_id),
    FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)
);
COMMENT ON TABLE new_order IS 'weir: partition by (no_w_id)';

CREATE TABLE order_line (
    ol_o_id        integer      NOT NULL,
    ol_d_id        integer      NOT NULL,
    ol_w_id        integer      NOT NULL,
    ol_number      integer      NOT NULL,
    ol_i_id        integer      NOT NULL,
    ol_supply_w_id integer      NOT NULL,
    ol_delivery_d  timestamp,
    ol_quantity    integer      NOT NULL,
    ol_amount      numeric(6,2) NOT NULL,
    ol_dist_info   char(24)     NOT NULL,
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number),
    FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id),
    FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)
);
COMMENT ON TABLE order_line IS 'weir: partition by (ol_w_id)';

-- No primary key: clause 1.3 gives it none, because nothing ever asks for one row of it.
CREATE TABLE history (
    h_c_id   integer      NOT NULL,
    h_c_d_id integer      NOT NULL,
    h_c_w_id integer      NOT NULL,
    h_d_id   integer      NOT NULL,
    h_w_id   integer      NOT NULL,
    h_date   timestamp    NOT NULL,
    h_amount numeric(6,2) NOT NULL,
    h_data   varchar(24)  NOT NULL,
    FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id),
    FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)
);
COMMENT ON TABLE history IS 'weir: partition by (h_w_id)';

-- Only the conditions read HISTORY: 8 and 9 by the district that was paid, 10 by the customer.
CREATE INDEX history_by_district ON history (h_w_id, h_d_id);
CREATE INDEX history_by_customer ON history (h_c_w_id, h_c_d_id, h_c_id);
