-- Time zones that statements name, and names of objects in texts.
CREATE TABLE moment (id integer PRIMARY KEY, t timestamp, z timestamptz, zone text);
-- rows
INSERT INTO moment VALUES (1, '2024-02-29 13:45:30.123456', '2024-02-29 13:45:30+00', 'Europe/Berlin'),
    (2, '2024-07-01 00:00', '2024-07-01 00:00+00', 'America/New_York'), (3, NULL, NULL, NULL), (4, 'infinity', '-infinity', 'Asia/Tokyo'),
    (5, '2024-03-31 02:30', '2024-03-31 01:00+00', 'Europe/Berlin'), (6, '2024-10-27 02:30', '2024-10-27 01:00+00', 'Europe/Berlin'),
    (7, '2024-03-10 02:30', '2024-03-10 07:00+00', 'America/New_York'), (8, '2024-11-03 01:30', '2024-11-03 06:00+00', 'America/New_York'),
    (9, '1900-01-01 00:00', '1900-01-01 00:00+00', 'Asia/Kolkata'), (10, '9999-07-01 12:00', '9999-07-01 12:00+00', 'America/Los_Angeles');

-- cases
SELECT id, z AT TIME ZONE 'Europe/Berlin', t AT TIME ZONE 'Europe/Berlin' FROM moment;
SELECT id, z AT TIME ZONE zone, t AT TIME ZONE zone FROM moment;
SELECT id, z AT TIME ZONE 'america/los_angeles', t AT TIME ZONE 'Australia/Lord_Howe' FROM moment;
SELECT id, z AT TIME ZONE 'PST', t AT TIME ZONE 'cest', z AT TIME ZONE 'EST5EDT' FROM moment;
SELECT id, z AT TIME ZONE 'UTC+3', z AT TIME ZONE '-05:30', z AT TIME ZONE '<+03>-3', z AT TIME ZONE '+2' FROM moment WHERE id < 4;
SELECT id, z AT TIME ZONE INTERVAL '-08:00', t AT TIME ZONE INTERVAL '05:30' FROM moment WHERE id < 4;
SELECT id, z AT TIME ZONE INTERVAL '1 day' FROM moment WHERE id = 1;
SELECT id, z AT TIME ZONE 'Mars/Olympus' FROM moment WHERE id = 1;
SELECT id, z AT TIME ZONE '' FROM moment WHERE id = 1;
SELECT id, timezone('Asia/Kolkata', z), timezone('Asia/Kolkata', t) FROM moment;
SELECT id, (t AT TIME ZONE 'UTC') AT TIME ZONE 'Asia/Tokyo' FROM moment;
SELECT id, (z AT TIME ZONE 'Asia/Tokyo')::date, extract(hour FROM z AT TIME ZONE zone) FROM moment WHERE id <> 4;
SELECT (z AT TIME ZONE 'America/New_York')::date AS day, count(*) FROM moment GROUP BY 1 ORDER BY 1;
SELECT id, date_trunc('day', z, 'Europe/Berlin'), date_trunc('month', z, 'America/New_York'), date_trunc('hour', z, 'Asia/Kolkata') FROM moment;
SELECT make_timestamptz(2024, 7, 1, 12, 0, 0, 'Europe/Berlin'), make_timestamptz(2024, 1, 1, 12, 0, 0.5, 'PST'), make_timestamptz(2024, 1, 1, 12, 0, 0, '+2');
SELECT timestamptz '2024-07-01 12:00 Europe/Berlin', timestamptz '2024-01-01 12:00 America/Port-au-Prince', timestamptz '2024-01-01 12:00 Etc/GMT+3';
SELECT timestamptz '2024-07-01 12:00 PDT', timestamptz '2024-07-01 12:00 nzst', timestamptz '2024-07-01T12:00:00Z';
SELECT timestamp '2024-07-01 12:00 Europe/Berlin', timestamptz '2024-07-01 12:00 Mars/Olympus';
SELECT timestamptz '2024-07-01 12:00 xyz';
SELECT id FROM moment WHERE z = '2024-02-29 14:45:30 Europe/Berlin';
SELECT timestamptz '0044-03-15 12:00 BC' AT TIME ZONE 'Europe/Rome', timestamp '0044-03-15 12:00 BC' AT TIME ZONE 'Europe/Rome';
-- names of objects
SELECT parse_ident('"SomeSchema".someTable'), parse_ident(' a . "b""c" '), parse_ident('a$1._x');
SELECT parse_ident('foo.boo[]', false), parse_ident('A');
SELECT parse_ident('foo.boo[]');
SELECT parse_ident('"a');
SELECT parse_ident('a.');
SELECT parse_ident('.a');
SELECT parse_ident('""');
SELECT parse_ident('');
