CREATE TYPE order_status AS ENUM ('open', 'paid', 'shipped', 'cancelled');

CREATE TABLE customers (
    id          bigserial PRIMARY KEY,
    email       text NOT NULL UNIQUE,
    name        text NOT NULL,
    credit      numeric(10, 2) NOT NULL DEFAULT 0 CHECK (credit >= 0),
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE products (
    sku         text PRIMARY KEY,
    title       text NOT NULL,
    price       numeric(10, 2) NOT NULL CHECK (price > 0),
    stock       integer NOT NULL DEFAULT 0 CHECK (stock >= 0)
);

CREATE TABLE coupons (
    code        text PRIMARY KEY,
    percent     integer NOT NULL CHECK (percent BETWEEN 1 AND 100),
    max_uses    integer NOT NULL,
    uses        integer NOT NULL DEFAULT 0,
    CONSTRAINT coupon_not_overused CHECK (uses <= max_uses)
);

CREATE TABLE orders (
    id          bigserial PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES customers (id),
    coupon_code text REFERENCES coupons (code) ON DELETE SET NULL,
    status      order_status NOT NULL DEFAULT 'open',
    total       numeric(10, 2) NOT NULL DEFAULT 0,
    placed_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE order_lines (
    order_id    bigint NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
    sku         text NOT NULL REFERENCES products (sku),
    quantity    integer NOT NULL CHECK (quantity > 0),
    price       numeric(10, 2) NOT NULL,
    PRIMARY KEY (order_id, sku)
);
CREATE INDEX ON orders (customer_id, placed_at DESC);
