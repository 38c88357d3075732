--
-- PostgreSQL database dump
--

\restrict QffXPiQNxtMKJy6OM7qi8Dshko2JT2l2ot3RfZeBXwTNTUAE2dm0NcWQ6LVQx2D

-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: audit; Type: SCHEMA; Schema: -; Owner: shop_owner
--

CREATE SCHEMA audit;


ALTER SCHEMA audit OWNER TO shop_owner;

--
-- Name: SCHEMA audit; Type: COMMENT; Schema: -; Owner: shop_owner
--

COMMENT ON SCHEMA audit IS 'Who did what';


--
-- Name: search; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA search;


ALTER SCHEMA search OWNER TO postgres;

--
-- Name: btree_gist; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA public;


--
-- Name: EXTENSION btree_gist; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION btree_gist IS 'support for indexing common datatypes in GiST';


--
-- Name: citext; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA public;


--
-- Name: EXTENSION citext; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION citext IS 'data type for case-insensitive character strings';


--
-- Name: pg_trgm; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA public;


--
-- Name: EXTENSION pg_trgm; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION pg_trgm IS 'text similarity measurement and index searching based on trigrams';


--
-- Name: pgcrypto; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS pgcrypto WITH SCHEMA public;


--
-- Name: EXTENSION pgcrypto; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION pgcrypto IS 'cryptographic functions';


--
-- Name: action; Type: TYPE; Schema: audit; Owner: postgres
--

CREATE TYPE audit.action AS ENUM (
    'insert',
    'update',
    'delete'
);


ALTER TYPE audit.action OWNER TO postgres;

--
-- Name: address; Type: TYPE; Schema: public; Owner: postgres
--

CREATE TYPE public.address AS (
	street text,
	city text,
	zip text
);


ALTER TYPE public.address OWNER TO postgres;

--
-- Name: email; Type: DOMAIN; Schema: public; Owner: postgres
--

CREATE DOMAIN public.email AS public.citext NOT NULL
	CONSTRAINT email_check CHECK ((VALUE OPERATOR(public.~) '^[^@]+@[^@]+$'::public.citext));


ALTER DOMAIN public.email OWNER TO postgres;

--
-- Name: order_status; Type: TYPE; Schema: public; Owner: postgres
--

CREATE TYPE public.order_status AS ENUM (
    'draft',
    'placed',
    'paid',
    'packed',
    'shipped',
    'cancelled'
);


ALTER TYPE public.order_status OWNER TO postgres;

--
-- Name: positive_amount; Type: DOMAIN; Schema: public; Owner: postgres
--

CREATE DOMAIN public.positive_amount AS numeric(12,2)
	CONSTRAINT positive_amount_check CHECK ((VALUE >= (0)::numeric));


ALTER DOMAIN public.positive_amount OWNER TO postgres;

--
-- Name: sku; Type: DOMAIN; Schema: public; Owner: postgres
--

CREATE DOMAIN public.sku AS character varying(20) DEFAULT 'UNKNOWN'::character varying
	CONSTRAINT sku_upper CHECK (((VALUE)::text = upper((VALUE)::text)));


ALTER DOMAIN public.sku OWNER TO postgres;

--
-- Name: DOMAIN sku; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON DOMAIN public.sku IS 'Stock keeping unit';


--
-- Name: log_change(); Type: FUNCTION; Schema: audit; Owner: postgres
--

CREATE FUNCTION audit.log_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$
DECLARE
    what audit.action := lower(TG_OP)::audit.action;
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO audit.log (table_name, row_id, what) VALUES (TG_TABLE_NAME, OLD.id, what);
        RETURN OLD;
    END IF;
    INSERT INTO audit.log (table_name, row_id, what) VALUES (TG_TABLE_NAME, NEW.id, what);
    RETURN NEW;
END;
$$;


ALTER FUNCTION audit.log_change() OWNER TO postgres;

--
-- Name: touch(); Type: FUNCTION; Schema: audit; Owner: postgres
--

CREATE FUNCTION audit.touch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END;
$$;


ALTER FUNCTION audit.touch() OWNER TO postgres;

--
-- Name: archive(text); Type: PROCEDURE; Schema: public; Owner: postgres
--

CREATE PROCEDURE public.archive(IN p_table text)
    LANGUAGE plpgsql
    AS $$
BEGIN
    EXECUTE format('DELETE FROM %I WHERE updated_at < now() - interval ''1 year''', p_table);
EXCEPTION WHEN undefined_table THEN
    RAISE NOTICE 'nothing to archive';
END;
$$;


ALTER PROCEDURE public.archive(IN p_table text) OWNER TO postgres;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: coupon; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.coupon (
    code text NOT NULL,
    customer_id bigint,
    valid daterange NOT NULL,
    campaign text,
    region text
);


ALTER TABLE public.coupon OWNER TO postgres;

--
-- Name: customer; Type: TABLE; Schema: public; Owner: shop_owner
--

CREATE TABLE public.customer (
    id bigint NOT NULL,
    mail public.email,
    full_name text NOT NULL,
    home public.address,
    tags text[] DEFAULT '{}'::text[],
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    last_seen inet,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone,
    deleted_at timestamp with time zone,
    search_doc tsvector GENERATED ALWAYS AS (to_tsvector('english'::regconfig, COALESCE(full_name, ''::text))) STORED
);


ALTER TABLE public.customer OWNER TO shop_owner;

--
-- Name: forget_customer(bigint); Type: PROCEDURE; Schema: public; Owner: postgres
--

CREATE PROCEDURE public.forget_customer(IN p_customer bigint)
    LANGUAGE sql
    BEGIN ATOMIC
 UPDATE public.customer SET deleted_at = now(), full_name = encode(public.digest(customer.full_name, 'sha256'::text), 'hex'::text)
   WHERE (customer.id = forget_customer.p_customer);
 DELETE FROM public.coupon
   WHERE (coupon.customer_id = forget_customer.p_customer);
END;


ALTER PROCEDURE public.forget_customer(IN p_customer bigint) OWNER TO postgres;

--
-- Name: pay_order(bigint, date); Type: PROCEDURE; Schema: public; Owner: postgres
--

CREATE PROCEDURE public.pay_order(IN p_order bigint, IN p_day date)
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE orders SET status = 'paid' WHERE id = p_order AND placed_on = p_day AND status < 'paid';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'order % cannot be paid', p_order;
    END IF;
END;
$$;


ALTER PROCEDURE public.pay_order(IN p_order bigint, IN p_day date) OWNER TO postgres;

--
-- Name: place_order(bigint, integer[], integer[]); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.place_order(p_customer bigint, p_products integer[], p_quantities integer[]) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_order bigint;
    v_price numeric;
    v_total numeric := 0;
BEGIN
    INSERT INTO orders (customer_id, status) VALUES (p_customer, 'placed') RETURNING id INTO v_order;
    FOR i IN 1 .. array_length(p_products, 1) LOOP
        UPDATE product SET stock = stock - p_quantities[i] WHERE id = p_products[i] RETURNING price INTO v_price;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no such product %', p_products[i] USING ERRCODE = 'no_data_found';
        END IF;
        INSERT INTO order_line (order_id, placed_on, line_no, product_id, quantity, price)
        VALUES (v_order, CURRENT_DATE, i, p_products[i], p_quantities[i], v_price);
        v_total := v_total + v_price * p_quantities[i];
    END LOOP;
    UPDATE orders SET total = v_total WHERE id = v_order AND placed_on = CURRENT_DATE;
    RETURN v_order;
END;
$$;


ALTER FUNCTION public.place_order(p_customer bigint, p_products integer[], p_quantities integer[]) OWNER TO postgres;

--
-- Name: search_customers(text); Type: FUNCTION; Schema: public; Owner: postgres
--

CREATE FUNCTION public.search_customers(q text) RETURNS SETOF public.customer
    LANGUAGE sql STABLE
    AS $$
    SELECT * FROM customer WHERE search_doc @@ plainto_tsquery('english', q) ORDER BY ts_rank(search_doc, plainto_tsquery('english', q)) DESC LIMIT 20
$$;


ALTER FUNCTION public.search_customers(q text) OWNER TO postgres;

--
-- Name: total_text(text); Type: AGGREGATE; Schema: public; Owner: postgres
--

CREATE AGGREGATE public.total_text(text) (
    SFUNC = textcat,
    STYPE = text,
    INITCOND = ''
);


ALTER AGGREGATE public.total_text(text) OWNER TO postgres;

--
-- Name: log; Type: TABLE; Schema: audit; Owner: postgres
--

CREATE TABLE audit.log (
    id bigint NOT NULL,
    table_name name NOT NULL,
    row_id bigint,
    what audit.action NOT NULL,
    at timestamp(3) without time zone DEFAULT clock_timestamp() NOT NULL,
    who name DEFAULT CURRENT_USER
);


ALTER TABLE audit.log OWNER TO postgres;

--
-- Name: log_id_seq; Type: SEQUENCE; Schema: audit; Owner: postgres
--

ALTER TABLE audit.log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME audit.log_id_seq
    START WITH 1000
    INCREMENT BY 10
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: orders; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders (
    id bigint NOT NULL,
    customer_id bigint NOT NULL,
    status public.order_status DEFAULT 'draft'::public.order_status NOT NULL,
    total public.positive_amount DEFAULT 0,
    placed_on date DEFAULT CURRENT_DATE NOT NULL,
    updated_at timestamp with time zone,
    CONSTRAINT orders_check CHECK (((status <> 'paid'::public.order_status) OR ((total)::numeric > (0)::numeric)))
)
PARTITION BY RANGE (placed_on);


ALTER TABLE public.orders OWNER TO postgres;

--
-- Name: TABLE orders; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON TABLE public.orders IS 'One row an order';


--
-- Name: COLUMN orders.total; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON COLUMN public.orders.total IS 'Sum of the lines';


--
-- Name: best_customers; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.best_customers AS
 SELECT c.id,
    sum((o.total)::numeric) AS spent,
    rank() OVER (ORDER BY (sum((o.total)::numeric)) DESC) AS place
   FROM (public.customer c
     JOIN public.orders o ON ((o.customer_id = c.id)))
  GROUP BY c.id;


ALTER TABLE public.best_customers OWNER TO postgres;

--
-- Name: customer_id_seq; Type: SEQUENCE; Schema: public; Owner: shop_owner
--

ALTER TABLE public.customer ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.customer_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: invoice_no; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.invoice_no
    START WITH 5000
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 10;


ALTER TABLE public.invoice_no OWNER TO postgres;

--
-- Name: open_orders; Type: VIEW; Schema: public; Owner: postgres
--

CREATE VIEW public.open_orders AS
 SELECT o.id,
    o.placed_on,
    c.full_name,
    o.total
   FROM (public.orders o
     JOIN public.customer c ON ((c.id = o.customer_id)))
  WHERE (o.status = ANY (ARRAY['draft'::public.order_status, 'placed'::public.order_status]));


ALTER TABLE public.open_orders OWNER TO postgres;

--
-- Name: order_line; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.order_line (
    order_id bigint NOT NULL,
    placed_on date NOT NULL,
    line_no smallint NOT NULL,
    product_id integer NOT NULL,
    quantity integer NOT NULL,
    price public.positive_amount NOT NULL,
    CONSTRAINT order_line_quantity_check CHECK ((quantity > 0))
);


ALTER TABLE public.order_line OWNER TO postgres;

--
-- Name: orders_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.orders_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.orders_id_seq OWNER TO postgres;

--
-- Name: orders_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.orders_id_seq OWNED BY public.orders.id;


--
-- Name: orders_2024; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders_2024 (
    id bigint DEFAULT nextval('public.orders_id_seq'::regclass) NOT NULL,
    customer_id bigint NOT NULL,
    status public.order_status DEFAULT 'draft'::public.order_status NOT NULL,
    total public.positive_amount DEFAULT 0,
    placed_on date DEFAULT CURRENT_DATE NOT NULL,
    updated_at timestamp with time zone,
    CONSTRAINT orders_check CHECK (((status <> 'paid'::public.order_status) OR ((total)::numeric > (0)::numeric)))
);


ALTER TABLE public.orders_2024 OWNER TO postgres;

--
-- Name: orders_2025; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders_2025 (
    id bigint DEFAULT nextval('public.orders_id_seq'::regclass) NOT NULL,
    customer_id bigint NOT NULL,
    status public.order_status DEFAULT 'draft'::public.order_status NOT NULL,
    total public.positive_amount DEFAULT 0,
    placed_on date DEFAULT CURRENT_DATE NOT NULL,
    updated_at timestamp with time zone,
    CONSTRAINT orders_check CHECK (((status <> 'paid'::public.order_status) OR ((total)::numeric > (0)::numeric)))
)
PARTITION BY LIST (placed_on);


ALTER TABLE public.orders_2025 OWNER TO postgres;

--
-- Name: orders_2025_open; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders_2025_open (
    id bigint DEFAULT nextval('public.orders_id_seq'::regclass) NOT NULL,
    customer_id bigint NOT NULL,
    status public.order_status DEFAULT 'draft'::public.order_status NOT NULL,
    total public.positive_amount DEFAULT 0,
    placed_on date DEFAULT CURRENT_DATE NOT NULL,
    updated_at timestamp with time zone,
    CONSTRAINT orders_check CHECK (((status <> 'paid'::public.order_status) OR ((total)::numeric > (0)::numeric)))
);


ALTER TABLE public.orders_2025_open OWNER TO postgres;

--
-- Name: orders_2025_rest; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders_2025_rest (
    id bigint DEFAULT nextval('public.orders_id_seq'::regclass) NOT NULL,
    customer_id bigint NOT NULL,
    status public.order_status DEFAULT 'draft'::public.order_status NOT NULL,
    total public.positive_amount DEFAULT 0,
    placed_on date DEFAULT CURRENT_DATE NOT NULL,
    updated_at timestamp with time zone,
    CONSTRAINT orders_check CHECK (((status <> 'paid'::public.order_status) OR ((total)::numeric > (0)::numeric)))
);


ALTER TABLE public.orders_2025_rest OWNER TO postgres;

--
-- Name: orders_rest; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders_rest (
    id bigint DEFAULT nextval('public.orders_id_seq'::regclass) NOT NULL,
    customer_id bigint NOT NULL,
    status public.order_status DEFAULT 'draft'::public.order_status NOT NULL,
    total public.positive_amount DEFAULT 0,
    placed_on date DEFAULT CURRENT_DATE NOT NULL,
    updated_at timestamp with time zone,
    CONSTRAINT orders_check CHECK (((status <> 'paid'::public.order_status) OR ((total)::numeric > (0)::numeric)))
);


ALTER TABLE public.orders_rest OWNER TO postgres;

--
-- Name: product; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.product (
    id integer NOT NULL,
    sku public.sku,
    name character varying(200) NOT NULL COLLATE pg_catalog."C",
    price public.positive_amount NOT NULL,
    stock integer DEFAULT 0 NOT NULL,
    reserved integer DEFAULT 0 NOT NULL,
    weight real,
    CONSTRAINT reserved_within_stock CHECK (((reserved >= 0) AND (reserved <= stock))),
    CONSTRAINT stock_not_negative CHECK ((stock >= 0))
);


ALTER TABLE public.product OWNER TO postgres;

--
-- Name: product_id_seq; Type: SEQUENCE; Schema: public; Owner: postgres
--

CREATE SEQUENCE public.product_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.product_id_seq OWNER TO postgres;

--
-- Name: product_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: postgres
--

ALTER SEQUENCE public.product_id_seq OWNED BY public.product.id;


--
-- Name: product_sales; Type: MATERIALIZED VIEW; Schema: public; Owner: postgres
--

CREATE MATERIALIZED VIEW public.product_sales AS
 SELECT order_line.product_id,
    sum(order_line.quantity) AS sold
   FROM public.order_line
  GROUP BY order_line.product_id
  WITH NO DATA;


ALTER TABLE public.product_sales OWNER TO postgres;

--
-- Name: queue; Type: TABLE; Schema: search; Owner: postgres
--

CREATE UNLOGGED TABLE search.queue (
    id bigint NOT NULL,
    payload json,
    at time without time zone
);


ALTER TABLE search.queue OWNER TO postgres;

--
-- Name: orders_2024; Type: TABLE ATTACH; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders ATTACH PARTITION public.orders_2024 FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');


--
-- Name: orders_2025; Type: TABLE ATTACH; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders ATTACH PARTITION public.orders_2025 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');


--
-- Name: orders_2025_open; Type: TABLE ATTACH; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders_2025 ATTACH PARTITION public.orders_2025_open FOR VALUES IN ('2025-01-01');


--
-- Name: orders_2025_rest; Type: TABLE ATTACH; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders_2025 ATTACH PARTITION public.orders_2025_rest DEFAULT;


--
-- Name: orders_rest; Type: TABLE ATTACH; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders ATTACH PARTITION public.orders_rest DEFAULT;


--
-- Name: orders id; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders ALTER COLUMN id SET DEFAULT nextval('public.orders_id_seq'::regclass);


--
-- Name: product id; Type: DEFAULT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.product ALTER COLUMN id SET DEFAULT nextval('public.product_id_seq'::regclass);


--
-- Name: log log_pkey; Type: CONSTRAINT; Schema: audit; Owner: postgres
--

ALTER TABLE ONLY audit.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (id);


--
-- Name: coupon coupon_campaign_region_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.coupon
    ADD CONSTRAINT coupon_campaign_region_key UNIQUE NULLS NOT DISTINCT (campaign, region);


--
-- Name: coupon coupon_customer_id_valid_excl; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.coupon
    ADD CONSTRAINT coupon_customer_id_valid_excl EXCLUDE USING gist (customer_id WITH =, valid WITH &&) WHERE ((customer_id IS NOT NULL));


--
-- Name: coupon coupon_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.coupon
    ADD CONSTRAINT coupon_pkey PRIMARY KEY (code);


--
-- Name: customer customer_pkey; Type: CONSTRAINT; Schema: public; Owner: shop_owner
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (id);


--
-- Name: order_line order_line_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.order_line
    ADD CONSTRAINT order_line_pkey PRIMARY KEY (order_id, placed_on, line_no);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id, placed_on);


--
-- Name: orders_2024 orders_2024_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders_2024
    ADD CONSTRAINT orders_2024_pkey PRIMARY KEY (id, placed_on);


--
-- Name: orders_2025 orders_2025_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders_2025
    ADD CONSTRAINT orders_2025_pkey PRIMARY KEY (id, placed_on);


--
-- Name: orders_2025_open orders_2025_open_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders_2025_open
    ADD CONSTRAINT orders_2025_open_pkey PRIMARY KEY (id, placed_on);


--
-- Name: orders_2025_rest orders_2025_rest_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders_2025_rest
    ADD CONSTRAINT orders_2025_rest_pkey PRIMARY KEY (id, placed_on);


--
-- Name: orders_rest orders_rest_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders_rest
    ADD CONSTRAINT orders_rest_pkey PRIMARY KEY (id, placed_on);


--
-- Name: product product_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.product
    ADD CONSTRAINT product_pkey PRIMARY KEY (id);


--
-- Name: product product_sku_key; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.product
    ADD CONSTRAINT product_sku_key UNIQUE (sku);


--
-- Name: queue queue_pkey; Type: CONSTRAINT; Schema: search; Owner: postgres
--

ALTER TABLE ONLY search.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (id);


--
-- Name: customer_mail_live; Type: INDEX; Schema: public; Owner: shop_owner
--

CREATE UNIQUE INDEX customer_mail_live ON public.customer USING btree (mail) WHERE (deleted_at IS NULL);


--
-- Name: customer_name_lower; Type: INDEX; Schema: public; Owner: shop_owner
--

CREATE UNIQUE INDEX customer_name_lower ON public.customer USING btree (lower(full_name));


--
-- Name: customer_search; Type: INDEX; Schema: public; Owner: shop_owner
--

CREATE INDEX customer_search ON public.customer USING gin (search_doc);


--
-- Name: customer_trgm; Type: INDEX; Schema: public; Owner: shop_owner
--

CREATE INDEX customer_trgm ON public.customer USING gin (full_name public.gin_trgm_ops);


--
-- Name: orders_customer; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX orders_customer ON ONLY public.orders USING btree (customer_id);


--
-- Name: orders_2024_customer_id_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX orders_2024_customer_id_idx ON public.orders_2024 USING btree (customer_id);


--
-- Name: orders_2025_customer_id_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX orders_2025_customer_id_idx ON ONLY public.orders_2025 USING btree (customer_id);


--
-- Name: orders_2025_open_customer_id_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX orders_2025_open_customer_id_idx ON public.orders_2025_open USING btree (customer_id);


--
-- Name: orders_2025_rest_customer_id_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX orders_2025_rest_customer_id_idx ON public.orders_2025_rest USING btree (customer_id);


--
-- Name: orders_rest_customer_id_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX orders_rest_customer_id_idx ON public.orders_rest USING btree (customer_id);


--
-- Name: product_sales_id; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX product_sales_id ON public.product_sales USING btree (product_id);


--
-- Name: orders_2024_customer_id_idx; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_customer ATTACH PARTITION public.orders_2024_customer_id_idx;


--
-- Name: orders_2024_pkey; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_pkey ATTACH PARTITION public.orders_2024_pkey;


--
-- Name: orders_2025_customer_id_idx; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_customer ATTACH PARTITION public.orders_2025_customer_id_idx;


--
-- Name: orders_2025_open_customer_id_idx; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_2025_customer_id_idx ATTACH PARTITION public.orders_2025_open_customer_id_idx;


--
-- Name: orders_2025_open_pkey; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_2025_pkey ATTACH PARTITION public.orders_2025_open_pkey;


--
-- Name: orders_2025_pkey; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_pkey ATTACH PARTITION public.orders_2025_pkey;


--
-- Name: orders_2025_rest_customer_id_idx; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_2025_customer_id_idx ATTACH PARTITION public.orders_2025_rest_customer_id_idx;


--
-- Name: orders_2025_rest_pkey; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_2025_pkey ATTACH PARTITION public.orders_2025_rest_pkey;


--
-- Name: orders_rest_customer_id_idx; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_customer ATTACH PARTITION public.orders_rest_customer_id_idx;


--
-- Name: orders_rest_pkey; Type: INDEX ATTACH; Schema: public; Owner: postgres
--

ALTER INDEX public.orders_pkey ATTACH PARTITION public.orders_rest_pkey;


--
-- Name: line_stats; Type: STATISTICS; Schema: public; Owner: postgres
--

CREATE STATISTICS public.line_stats (dependencies) ON order_id, product_id FROM public.order_line;


ALTER STATISTICS public.line_stats OWNER TO postgres;

--
-- Name: log protect; Type: RULE; Schema: audit; Owner: postgres
--

CREATE RULE protect AS
    ON DELETE TO audit.log DO INSTEAD NOTHING;


--
-- Name: customer customer_audit; Type: TRIGGER; Schema: public; Owner: shop_owner
--

CREATE TRIGGER customer_audit AFTER INSERT OR DELETE OR UPDATE ON public.customer FOR EACH ROW EXECUTE FUNCTION audit.log_change();


--
-- Name: customer customer_touch; Type: TRIGGER; Schema: public; Owner: shop_owner
--

CREATE TRIGGER customer_touch BEFORE UPDATE ON public.customer FOR EACH ROW EXECUTE FUNCTION audit.touch();


--
-- Name: orders orders_touch; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER orders_touch BEFORE UPDATE OF status, total ON public.orders FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION audit.touch();


--
-- Name: coupon coupon_customer_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.coupon
    ADD CONSTRAINT coupon_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES public.customer(id) ON DELETE SET NULL;


--
-- Name: order_line order_line_order_id_placed_on_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.order_line
    ADD CONSTRAINT order_line_order_id_placed_on_fkey FOREIGN KEY (order_id, placed_on) REFERENCES public.orders(id, placed_on) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: order_line order_line_product_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.order_line
    ADD CONSTRAINT order_line_product_id_fkey FOREIGN KEY (product_id) REFERENCES public.product(id);


--
-- Name: orders orders_customer_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE public.orders
    ADD CONSTRAINT orders_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES public.customer(id) ON DELETE RESTRICT;


--
-- Name: customer; Type: ROW SECURITY; Schema: public; Owner: shop_owner
--

ALTER TABLE public.customer ENABLE ROW LEVEL SECURITY;

--
-- Name: customer live; Type: POLICY; Schema: public; Owner: shop_owner
--

CREATE POLICY live ON public.customer FOR SELECT TO shop_app USING ((deleted_at IS NULL));


--
-- Name: everything; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION everything FOR ALL TABLES WITH (publish = 'insert, update, delete, truncate');


ALTER PUBLICATION everything OWNER TO postgres;

--
-- Name: SCHEMA audit; Type: ACL; Schema: -; Owner: shop_owner
--

GRANT USAGE ON SCHEMA audit TO shop_app;


--
-- Name: TABLE coupon; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.coupon TO shop_app;


--
-- Name: TABLE customer; Type: ACL; Schema: public; Owner: shop_owner
--

GRANT SELECT,INSERT ON TABLE public.customer TO shop_app;


--
-- Name: FUNCTION search_customers(q text); Type: ACL; Schema: public; Owner: postgres
--

REVOKE ALL ON FUNCTION public.search_customers(q text) FROM PUBLIC;


--
-- Name: TABLE orders; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.orders TO shop_app;


--
-- Name: TABLE best_customers; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.best_customers TO shop_app;


--
-- Name: TABLE open_orders; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.open_orders TO shop_app;


--
-- Name: TABLE order_line; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.order_line TO shop_app;


--
-- Name: TABLE orders_2024; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.orders_2024 TO shop_app;


--
-- Name: TABLE orders_2025; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.orders_2025 TO shop_app;


--
-- Name: TABLE orders_2025_open; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.orders_2025_open TO shop_app;


--
-- Name: TABLE orders_2025_rest; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.orders_2025_rest TO shop_app;


--
-- Name: TABLE orders_rest; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.orders_rest TO shop_app;


--
-- Name: TABLE product; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.product TO shop_app;


--
-- Name: TABLE product_sales; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT,INSERT ON TABLE public.product_sales TO shop_app;


--
-- Name: DEFAULT PRIVILEGES FOR TABLES; Type: DEFAULT ACL; Schema: public; Owner: postgres
--

ALTER DEFAULT PRIVILEGES FOR ROLE postgres IN SCHEMA public GRANT SELECT ON TABLES  TO shop_app;


--
-- PostgreSQL database dump complete
--

\unrestrict QffXPiQNxtMKJy6OM7qi8Dshko2JT2l2ot3RfZeBXwTNTUAE2dm0NcWQ6LVQx2D

