-- SET, RESET, SHOW, SET LOCAL, SET CONSTRAINTS, SET ROLE, SET SESSION …
SHOW work_mem
SET work_mem = '8MB'
SHOW work_mem
SET work_mem TO DEFAULT
SHOW work_mem
SET SESSION work_mem TO 1024
SHOW work_mem
RESET work_mem
SHOW work_mem
SET LOCAL work_mem = '9MB'
SHOW work_mem
BEGIN
SET LOCAL work_mem = '9MB'
SHOW work_mem
SAVEPOINT s
SET LOCAL work_mem = '10MB'
ROLLBACK TO s
SHOW work_mem
COMMIT
SHOW work_mem
BEGIN
SET work_mem = '9MB'
ROLLBACK
SHOW work_mem
BEGIN
SET work_mem = '9MB'
SET LOCAL work_mem = '11MB'
COMMIT
SHOW work_mem
RESET ALL
SHOW work_mem
SET nothing = 1
SHOW nothing
RESET nothing
SET own.name = 'x'
SHOW own.name
SET own.name TO DEFAULT
SHOW own.name
SET work_mem = 'x'
SET work_mem = '1kB'
SET work_mem = 1, 2
SET statement_timeout = '1min'
SHOW statement_timeout
SET statement_timeout = -1
RESET statement_timeout
SET TIME ZONE 'UTC'
SHOW TIME ZONE
SHOW timezone
SET TIME ZONE LOCAL
SET TIME ZONE DEFAULT
SET TIME ZONE 'nothing/nowhere'
SET timezone = 'nothing/nowhere'
SET TIME ZONE 'Europe/Berlin'
SHOW TIME ZONE
SET SESSION TIME ZONE -5
SHOW timezone
SET LOCAL TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE
SHOW timezone
RESET timezone
SHOW timezone
SET NAMES 'UTF8'
SET NAMES DEFAULT
[refused] SET NAMES 'nothing'
[refused] SET client_encoding = 'nothing'
SHOW client_encoding
SET SCHEMA 'public'
SHOW search_path
RESET search_path
SHOW search_path
SET XML OPTION CONTENT
[refused] SET DateStyle = 'ISO, DMY'
SHOW DateStyle
RESET DateStyle
SET DateStyle = 'nothing'
SET IntervalStyle = 'nothing'
SET client_min_messages = nothing
[refused] SET standard_conforming_strings = maybe
SET enable_seqscan = off
SHOW enable_seqscan
SET enable_seqscan = maybe
SET enable_seqscan = 1
SHOW enable_seqscan
RESET enable_seqscan
SET server_version = 'x'
SET is_superuser = off
SET synchronous_commit = maybe
SET synchronous_commit = off
RESET synchronous_commit
SET default_transaction_isolation = 'nothing'
SET default_transaction_isolation = 'serializable'
SHOW transaction_isolation
SET default_transaction_isolation = 'read committed'
SET transaction_isolation = 'read committed'
SET default_transaction_read_only = on
CREATE TABLE ro (id int)
SET default_transaction_read_only = off
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY
SHOW default_transaction_read_only
CREATE TABLE ro (id int)
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED
SHOW default_transaction_isolation
SET TRANSACTION READ ONLY
BEGIN
SET TRANSACTION READ ONLY
SHOW transaction_read_only
CREATE TABLE ro (id int)
ROLLBACK
BEGIN READ ONLY
SET TRANSACTION READ WRITE
SHOW transaction_read_only
ROLLBACK
BEGIN
SET TRANSACTION ISOLATION LEVEL nothing
ROLLBACK
[refused] SET TRANSACTION SNAPSHOT '1-1'
SET ROLE NONE
RESET ROLE
SHOW role
SET ROLE nobody_at_all
SET LOCAL ROLE NONE
SET SESSION AUTHORIZATION DEFAULT
RESET SESSION AUTHORIZATION
SET SESSION AUTHORIZATION nobody_at_all
SELECT set_config('work_mem', '7MB', false)
SHOW work_mem
SELECT current_setting('work_mem')
SELECT set_config('nothing', '7MB', false)
SELECT current_setting('nothing')
SELECT current_setting('nothing', true)
BEGIN
SELECT set_config('own.x', 'y', true)
SELECT current_setting('own.x')
COMMIT
DISCARD ALL
SHOW work_mem
DISCARD PLANS
DISCARD SEQUENCES
DISCARD TEMP
BEGIN
DISCARD ALL
ROLLBACK
-- SET CONSTRAINTS
CREATE TABLE p (id int PRIMARY KEY)
CREATE TABLE c (id int PRIMARY KEY, p int CONSTRAINT own REFERENCES p DEFERRABLE, q int CONSTRAINT fixed REFERENCES p)
INSERT INTO c VALUES (1, 1, NULL)
SET CONSTRAINTS ALL DEFERRED
INSERT INTO c VALUES (1, 1, NULL)
BEGIN
SET CONSTRAINTS ALL DEFERRED
INSERT INTO c VALUES (1, 1, NULL)
COMMIT
BEGIN
SET CONSTRAINTS own DEFERRED
INSERT INTO c VALUES (1, 1, NULL)
INSERT INTO p VALUES (1)
COMMIT
SELECT * FROM c
BEGIN
SET CONSTRAINTS own DEFERRED
INSERT INTO c VALUES (2, 2, NULL)
SET CONSTRAINTS own IMMEDIATE
ROLLBACK
BEGIN
SET CONSTRAINTS fixed DEFERRED
ROLLBACK
BEGIN
SET CONSTRAINTS nothing DEFERRED
ROLLBACK
BEGIN
SET CONSTRAINTS public.own DEFERRED
ROLLBACK
BEGIN
ROLLBACK
SET CONSTRAINTS nothing DEFERRED
