-- Roles, privileges, databases.
CREATE TABLE t (id int PRIMARY KEY, v int)
[refused] CREATE ROLE somebody
[refused] CREATE ROLE somebody LOGIN PASSWORD 'x'
[refused] CREATE USER somebody
[refused] CREATE GROUP somebody
[refused] ALTER ROLE nobody_at_all SUPERUSER
[refused] ALTER USER nobody_at_all PASSWORD 'x'
[refused] ALTER ROLE nobody_at_all RENAME TO another
[refused] ALTER ROLE nobody_at_all SET search_path TO public
[refused] ALTER ROLE CURRENT_USER SET search_path TO public
[refused] ALTER ROLE CURRENT_USER PASSWORD 'x'
[refused] ALTER ROLE ALL SET work_mem = '4MB'
[refused] GRANT SELECT ON t TO PUBLIC
[refused] GRANT ALL ON t TO CURRENT_USER
[refused] GRANT SELECT (id) ON t TO PUBLIC
[refused] GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC
[refused] GRANT USAGE ON SCHEMA public TO PUBLIC
[refused] GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO PUBLIC
[refused] GRANT USAGE ON SEQUENCE t TO PUBLIC
[refused] GRANT CONNECT ON DATABASE weir TO PUBLIC
[refused] GRANT pg_read_all_data TO CURRENT_USER
[refused] REVOKE ALL ON t FROM PUBLIC
[refused] REVOKE ALL ON SCHEMA public FROM PUBLIC
[refused] REVOKE pg_read_all_data FROM CURRENT_USER
[refused] ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC
[refused] ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM PUBLIC
[refused] REASSIGN OWNED BY CURRENT_USER TO CURRENT_USER
[refused] ALTER DATABASE weir SET work_mem = '4MB'
[refused] ALTER DATABASE weir RENAME TO another
[refused] ALTER DATABASE weir OWNER TO CURRENT_USER
[refused] ALTER DATABASE nothing OWNER TO CURRENT_USER
[refused] ALTER DATABASE nothing SET work_mem = '4MB'
SELECT * FROM t
