CREATE OR REPLACE FUNCTION greeting(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN 'Hello, ' || name;
END $$;
