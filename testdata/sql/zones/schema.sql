CREATE TABLE moment (id integer PRIMARY KEY, z timestamptz, t timestamp, d date, zs timestamptz[], n integer NOT NULL DEFAULT 0);
CREATE TABLE day (id integer PRIMARY KEY, made timestamptz NOT NULL DEFAULT '2024-07-01 12:00+00',
    here timestamptz DEFAULT ('2024-07-01' || ' 22:00')::timestamptz, shown text DEFAULT timestamptz '2024-01-01 00:00+00'::text,
    CHECK (extract(hour FROM made) <> 3));
CREATE PROCEDURE put(k integer, at timestamptz) LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO moment (id, z, t, d) VALUES (k, at, at, at);
    UPDATE moment SET z = z + interval '1 day' WHERE id = k; END $$;
CREATE PROCEDURE put_local(k integer) LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO moment (id, z) VALUES (k, '2024-01-15 08:00'); END $$;
CREATE FUNCTION shown(k integer) RETURNS text LANGUAGE plpgsql AS $$ DECLARE s text; BEGIN
    SELECT z::text INTO s FROM moment WHERE id = k; RETURN s; END $$;
