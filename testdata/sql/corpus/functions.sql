-- Operators and functions that clients use, over columns and constants.
CREATE TABLE word (id integer PRIMARY KEY, w text, v varchar(12), c char(6), n integer);
CREATE TABLE moment (id integer PRIMARY KEY, d date, t timestamp, z timestamptz, i interval);
CREATE TABLE number (id integer PRIMARY KEY, s smallint, i integer, b bigint, m numeric(10,3), f double precision, r real);
CREATE TABLE list (id integer PRIMARY KEY, a integer[], t text[], j jsonb);
-- rows
INSERT INTO word VALUES (1, 'Hello World', 'varchar', 'char', 3), (2, '', '', '', 0), (3, NULL, NULL, NULL, NULL),
    (4, '  trimmed  ', 'a,b,,c', 'x', -1), (5, 'under_score', 'ea', 'e', 7), (6, '100%_x', 'a\b', '12', 12);
INSERT INTO moment VALUES (1, '2024-02-29', '2024-02-29 13:45:30.123456', '2024-02-29 13:45:30+00', '1 day 02:03:04'),
    (2, '1999-12-31', '1999-12-31 23:59:59', '1999-12-31 23:59:59+00', '-3 mons'), (3, NULL, NULL, NULL, NULL),
    (4, '2000-01-01', '2000-01-01', '2000-01-01 00:00+00', '1 year 2 mons 3 days 04:05:06.7');
INSERT INTO number VALUES (1, 5, 17, 10000000000, 3.142, 2.5, 1.5), (2, -5, -17, -1, -0.001, -0.5, -2.25), (3, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, 0, 0, 0, 0, 0, 0);
INSERT INTO list VALUES (1, '{1,2,3}', '{a,b,NULL}', '{"a": {"b": [10, 20]}, "k": "v", "n": 1.50}'), (2, '{}', '{}', '[1, "two", null, true]'),
    (3, NULL, NULL, NULL), (4, '{3,3,5}', '{"x y","q\"r"}', '"text"');

-- cases
-- strings
SELECT id, length(w), char_length(v), octet_length(w), bit_length(v) FROM word;
SELECT id, upper(w), lower(w), initcap(w) FROM word;
SELECT id, w || '-' || v, w || n, n || w FROM word;
SELECT id, concat(w, '|', n, NULL, v), concat_ws(',', w, NULL, v) FROM word;
SELECT id, substring(w FROM 2 FOR 3), substring(w, 4), substr(w, 2, 2), left(w, 3), right(w, 3) FROM word;
SELECT id, left(w, -2), right(w, -2), left(w, 0) FROM word;
SELECT id, substring(w FROM '[A-Z].'), substring(w FROM 'o(.)') FROM word;
SELECT id, position('o' IN w), strpos(w, 'l'), position('' IN w) FROM word;
SELECT id, trim(w), ltrim(w), rtrim(w), btrim(w, ' d'), trim(BOTH 'x' FROM w), trim(LEADING FROM w), trim(TRAILING 'e' FROM w) FROM word;
SELECT id, lpad(w, 5), rpad(w, 14, '*'), lpad(v, 9, 'ab'), rpad(v, 0) FROM word;
SELECT id, replace(w, 'l', 'L'), translate(w, 'lo', '01'), reverse(w), repeat(v, 2) FROM word;
SELECT id, split_part(v, ',', 2), split_part(v, ',', -1), split_part(v, ',', 9) FROM word;
SELECT split_part('a', ',', 0);
SELECT id, string_to_array(v, ','), array_to_string(string_to_array(v, ','), '+') FROM word;
SELECT id, starts_with(w, 'He'), w LIKE 'H%', w LIKE '%\%\_%', w LIKE '%!_%' ESCAPE '!' FROM word;
SELECT id FROM word WHERE w ILIKE '%WORLD';
SELECT id FROM word WHERE v LIKE 'a\\b';
SELECT id, w SIMILAR TO '%(World|x)', w SIMILAR TO 'H[a-z]+ W_rld' FROM word;
SELECT 'a.c' SIMILAR TO 'a.c', 'abc' SIMILAR TO 'a.c', 'a+' SIMILAR TO 'a+', 'aa' SIMILAR TO 'a{2}', 'a%' SIMILAR TO 'a#%' ESCAPE '#';
SELECT id, w ~ 'o.W', w ~* 'WORLD', w !~ '^H', w !~* 'h' FROM word;
SELECT id, regexp_replace(w, 'o', '0'), regexp_replace(w, 'o', '0', 'g'), regexp_replace(w, '(\w+) (\w+)', '\2 \1') FROM word;
SELECT id, regexp_match(w, '(\w+) (\w+)'), regexp_split_to_array(v, ',') FROM word;
SELECT regexp_count('banana', 'an'), regexp_like('banana', '^b'), regexp_substr('banana', 'n.'), regexp_instr('banana', 'n');
SELECT id, ascii(w), chr(65 + coalesce(n, 0) + 1), to_hex(n), md5(w) FROM word;
SELECT id, quote_literal(w), quote_ident(w), quote_nullable(w) FROM word;
SELECT format('%s has %s of %I at %L', 'Ann', 3, 'my table', 'it''s'), format('%2$s %1$s', 'a', 'b'), format('%5s|%-5s|', 'x', 'y');
SELECT overlay('abcdef' PLACING 'XX' FROM 3), overlay('abcdef' PLACING 'XX' FROM 3 FOR 4);
SELECT encode('\x01ff'::bytea, 'hex'), decode('AQI=', 'base64'), encode('abc'::bytea, 'base64'), length('\x0102'::bytea);
SELECT c, length(c), c || 'x', c = 'char', c LIKE 'ch%' FROM word;
SELECT v::char(3), w::varchar(4), c::text || '.' FROM word WHERE id = 1;
SELECT 'abc' < 'abd', 'a' < 'B', '' < 'a', 'Z' < 'a';
SELECT greatest('a', 'b', NULL), least('x', 'y'), coalesce(NULL, 'z'), nullif('a', 'a');
SELECT id, CASE w WHEN '' THEN 'empty' WHEN 'Hello World' THEN 'greeting' ELSE coalesce(w, 'none') END FROM word;
SELECT id, CASE WHEN n > 5 THEN 'big' WHEN n > 0 THEN 'small' END FROM word;
SELECT E'tab\tnew\nline', U&'\0041', $$dollar$$, $x$quoted $$ more$x$, 'it''s';
SELECT 'x'::text COLLATE "C" = 'x', upper('s'), lower('AE');
SELECT unknown_function(1);
SELECT length(5);
SELECT upper(NULL), length(NULL::text), NULL || 'x';
-- numbers
SELECT id, s + i, i + b, i * m, m / 3, f * 2, r + f FROM number;
SELECT id, i / 5, i % 5, mod(i, 5), div(m, 2), -i, @ i, abs(m) FROM number;
SELECT id, round(m), round(m, 1), trunc(m, 2), ceil(m), floor(m), ceiling(f), sign(m), sign(f) FROM number;
SELECT id, round(f), trunc(f), power(f, 2), f ^ 2, exp(f), sqrt(abs(f)) FROM number;
SELECT id, i & 7, i | 8, i # 1, ~i, i << 2, i >> 1 FROM number;
SELECT id, i::bigint, i::smallint, i::numeric, i::double precision, i::real, i::text FROM number;
SELECT id, m::integer, f::integer, r::integer, m::text, f::text, r::text FROM number;
SELECT id, i = m, i < f, b > i, m <> 0, r = f FROM number;
SELECT id, greatest(s, i, b), least(m, f), coalesce(i, 0) + 1, nullif(i, 17) FROM number;
SELECT id, i BETWEEN -20 AND 0, i NOT IN (17, 0), m IN (3.142, 0) FROM number;
SELECT 1 / 3.0, 2::numeric / 3, 10 / 4, 10 / 4.0, 10 % 4.5, 1e3, .5, 1.50 + 2;
SELECT 0.1 + 0.2, 0.1::float8 + 0.2::float8, 1e308 * 10;
SELECT 1::float8 / 3, 1::real / 3, 1e-7::float8, 123456789012345680::float8, 'NaN'::float8, '-Infinity'::float8;
SELECT sqrt(2), ln(10), log(100), log(2, 64), exp(1), pi(), degrees(pi()), radians(180);
SELECT sqrt(2::numeric), ln(2::numeric), exp(1::numeric), power(2::numeric, 0.5), log(2.0, 8.0);
SELECT sin(1), cos(1), tan(1), asin(0.5), acos(0.5), atan(1), atan2(1, 2), cot(1);
SELECT factorial(10), gcd(48, 36), lcm(4, 6), width_bucket(5.35, 0.024, 10.06, 5), scale(8.41), trim_scale(8.4100), min_scale(8.4100);
SELECT sqrt(-1);
SELECT ln(0);
SELECT 1 / 0;
SELECT 2147483647 + 1;
SELECT '12'::integer + '3', 5 + '7', '4' * 2;
SELECT 12345.678::numeric(7,2), 99999.5::numeric(5,0);
SELECT 1.5::integer, 2.5::integer, -1.5::integer, 2.5::float8::integer, 3.5::float8::integer;
SELECT to_char(1234.5, '9,999.99'), to_char(-5, 'FM000'), to_char(0.5, '0.00'), to_char(42, 'RN'), to_char(1e5, '9.99EEEE');
SELECT to_number('1,234.5', '9,999.9'), to_number('-12', 'S99');
SELECT true AND NULL, false OR NULL, NOT NULL::boolean, true::integer, 0::boolean, 'yes'::boolean, 't'::text::boolean;
SELECT true > false, bool 'on', true::text, NULL IS UNKNOWN, (1 = 1) IS TRUE, (1 = NULL) IS NOT FALSE;
-- times
SELECT id, d + 1, d - 1, d + interval '1 month', d - date '2000-01-01', d + time_part FROM moment, (SELECT 30 AS time_part) x;
SELECT id, t + i, t - i, t - timestamp '2000-01-01', i * 2, i / 2, -i, i + interval '1 hour' FROM moment;
SELECT id, extract(year FROM d), extract(month FROM t), extract(day FROM t), extract(hour FROM t), extract(minute FROM t), extract(second FROM t) FROM moment;
SELECT id, extract(dow FROM d), extract(isodow FROM d), extract(doy FROM d), extract(week FROM d), extract(quarter FROM d), extract(isoyear FROM d) FROM moment;
SELECT id, extract(epoch FROM t), extract(epoch FROM i), extract(epoch FROM z), extract(milliseconds FROM t), extract(microseconds FROM t) FROM moment;
SELECT id, extract(century FROM d), extract(decade FROM d), extract(millennium FROM d), date_part('year', t), date_part('second', i) FROM moment;
SELECT id, date_trunc('hour', t), date_trunc('month', t), date_trunc('week', t), date_trunc('quarter', d), date_trunc('day', i) FROM moment;
SELECT id, to_char(t, 'YYYY-MM-DD HH24:MI:SS.US'), to_char(t, 'Day, DD Mon YYYY'), to_char(d, 'FMMonth FMDD, YYYY') FROM moment;
SELECT id, to_char(t, 'HH12:MI AM'), to_char(t, 'D DDD IW Q J'), to_char(i, 'HH24:MI:SS') FROM moment;
SELECT id, t::date, d::timestamp, t::text, d::text, i::text, z::text FROM moment;
SELECT id, z AT TIME ZONE 'UTC', t AT TIME ZONE 'UTC', timezone('UTC', t) FROM moment;
SELECT id, age(t, timestamp '2000-06-15'), justify_hours(i), justify_days(i), justify_interval(i) FROM moment;
SELECT id, d < '2000-01-01', t >= d, z > t, i > interval '1 day' FROM moment;
SELECT id FROM moment WHERE t BETWEEN '1999-01-01' AND '2000-12-31';
SELECT id FROM moment WHERE d = '2024-02-29' OR d IS NULL;
SELECT (date '2024-01-31' + interval '1 month')::date, date '2024-03-31' - interval '1 month', timestamp '2024-01-01' - interval '1 second';
SELECT interval '1 year 2 months', interval '90 minutes', interval '1-2', interval 'P1DT2H', '2 weeks'::interval, interval '1 day' = interval '24 hours';
-- refused
SELECT make_date(2024, 2, 29), make_timestamp(2024, 1, 2, 3, 4, 5.5), make_interval(days => 10);
SELECT make_interval(1, 2), to_date('05 Dec 2000', 'DD Mon YYYY'), to_timestamp('2024-01-02 03:04', 'YYYY-MM-DD HH24:MI'), to_timestamp(0);
SELECT date '2024-02-30';
SELECT make_date(2023, 2, 29);
SELECT timestamp 'not a time';
SELECT extract(fortnight FROM d) FROM moment;
SELECT 'infinity'::timestamp > now(), '-infinity'::date < '2000-01-01', isfinite('infinity'::date), isfinite(interval '1 day');
SELECT current_date = now()::date, now() = current_timestamp, localtimestamp = now()::timestamp;
SELECT date(t), date_trunc('minute', z), t::date - d FROM moment;
SELECT min(d), max(t), count(i), sum(i), avg(i) FROM moment;
SELECT date '2024-05-05' - 7, 7 + date '2024-05-05', date '2024-05-05' - timestamp '2024-05-01 12:00';
-- arrays
SELECT id, a[1], a[5], a[2:3], a[:2], a[2:], t[1] FROM list;
SELECT id, a || 4, 0 || a, a || ARRAY[8, 9], t || 'z'::text FROM list;
SELECT id, array_length(a, 1), cardinality(a), array_upper(a, 1), array_lower(a, 1), array_ndims(a), array_dims(a) FROM list;
SELECT id, 3 = ANY (a), 3 < ALL (a), a @> ARRAY[3], a <@ ARRAY[1, 2, 3, 4], a && ARRAY[5, 6] FROM list;
SELECT id, array_append(a, 7), array_prepend(7, a), array_cat(a, a), array_remove(a, 3), array_replace(a, 3, 30) FROM list;
SELECT id, array_position(a, 3), array_positions(a, 3), array_position(t, 'b'), array_to_string(t, ','), array_to_string(t, ',', '*') FROM list;
SELECT id, a = ARRAY[1, 2, 3], a < ARRAY[2], a <> '{}', t IS NULL, a::text, t::text FROM list;
SELECT id FROM list WHERE 'a' = ANY (t);
SELECT id FROM list WHERE a[1] = 3;
SELECT ARRAY[1, 2] || ARRAY[3], ARRAY['a', NULL], ARRAY[1, 2.5], '{1,2}'::int[], ARRAY[]::text[];
SELECT array_agg(x ORDER BY x DESC) FROM unnest(ARRAY[3, 1, 2]) x;
SELECT (ARRAY[10, 20, 30])[2], (string_to_array('a,b,c', ','))[3], (ARRAY[1, 2, 3])[2:];
SELECT ARRAY[];
SELECT '{1,2'::integer[];
SELECT ARRAY[1, 'x'];
SELECT trim_array(ARRAY[1, 2, 3], 1);
-- refused
SELECT ARRAY[[1, 2], [3, 4]];
SELECT id, x FROM list, unnest(a) x WHERE x > 1 ORDER BY id, x;
SELECT array_agg(DISTINCT x ORDER BY x) FROM list, unnest(a) x;
-- jsonb
SELECT id, j -> 'a', j -> 'k', j ->> 'k', j -> 0, j ->> 1, j -> -1 FROM list;
SELECT id, j #> '{a,b}', j #>> '{a,b,0}', j #> '{a,x}' FROM list;
SELECT id, j -> 'a' -> 'b' -> 1, (j ->> 'n')::numeric + 1, j['k'] FROM list;
SELECT id, j ? 'k', j ?| ARRAY['x', 'k'], j ?& ARRAY['a', 'k'], j @> '{"k": "v"}', j <@ '[1, "two", null, true, 5]' FROM list;
SELECT id, jsonb_typeof(j), jsonb_typeof(j -> 'a'), j::text FROM list;
SELECT id, j || '{"z": 1}', j - 'k', j - 0 FROM list WHERE id = 1;
SELECT '[1, 2, 3]'::jsonb - 1, '{"a": 1, "b": 2}'::jsonb - ARRAY['a', 'b'], '{"a": {"b": 1}}'::jsonb #- '{a,b}';
SELECT jsonb_set('{"a": 1}', '{b}', '2'), jsonb_set('{"a": 1}', '{b}', '2', false), jsonb_insert('[1, 2]', '{1}', '"x"');
SELECT jsonb_build_object('a', 1, 'b', NULL, 'c', ARRAY[1, 2]), jsonb_build_array(1, 'x', true, NULL), to_jsonb('text'::text), to_jsonb(1.5);
SELECT jsonb_strip_nulls('{"a": null, "b": {"c": null}}'), jsonb_array_length('[1, 2, 3]'), jsonb_pretty('{"a": [1]}');
SELECT jsonb_extract_path('{"a": {"b": 5}}', 'a', 'b'), jsonb_extract_path_text('{"a": {"b": "x"}}', 'a', 'b');
SELECT '{"b": 1, "a": 2, "b": 3}'::jsonb, '[1.0, 1e2]'::jsonb, '"\u0041"'::jsonb, 'null'::jsonb;
SELECT '{"a": 1}'::jsonb = '{"a": 1.0}'::jsonb, '[1, 2]'::jsonb < '[1, 3]'::jsonb;
SELECT '{a: 1}'::jsonb;
SELECT (j -> 'n')::integer, (j -> 'n')::numeric, (j ->> 'n')::float8 FROM list WHERE id = 1;
SELECT ('true'::jsonb)::boolean, ('5'::jsonb)::integer;
SELECT ('"x"'::jsonb)::integer;
SELECT id FROM list WHERE j @> '[1]' OR j ->> 'k' = 'v';
SELECT jsonb_agg(id ORDER BY id) FILTER (WHERE j IS NOT NULL) FROM list;
SELECT count(DISTINCT j) FROM list;
-- casts and types
SELECT CAST('5' AS integer), '5'::int4, int '7', cast(5.7 AS int), '2024-01-01'::date, 'x'::char(3) || '|';
SELECT 5::boolean, 'abc'::varchar(2), 3.999::numeric(3,1), '1e2'::numeric, ' 12 '::integer;
SELECT 'abc'::integer;
SELECT '2147483648'::integer;
SELECT 70000::smallint;
SELECT 'maybe'::boolean;
SELECT 5::date;
SELECT '550e8400-e29b-41d4-a716-446655440000'::uuid, 'x'::uuid;
SELECT '550E8400E29B41D4A716446655440000'::uuid;
SELECT '\x0aff'::bytea, 'a\\b'::bytea, '\x0aff'::bytea || '\x00'::bytea;
SELECT ROW(1, 'a') = ROW(1, 'a'), ROW(1, NULL) IS NULL, ROW(1, 2) < ROW(1, 3), (1, 2) IS DISTINCT FROM (1, NULL);
SELECT num_nonnulls(1, NULL, 2), num_nulls(1, NULL, 2);
SELECT 1 IS DISTINCT FROM NULL, NULL IS NOT DISTINCT FROM NULL, 1 IN (1, 2, NULL), 3 NOT IN (1, NULL);
SELECT 1 + NULL, NULL = NULL, NULL <> 1, NULL AND false, coalesce(NULL, NULL);
SELECT count(*) FROM word WHERE w IS NULL OR w = '';
SELECT pg_catalog.upper('x'), pg_catalog.now() IS NOT NULL;
SELECT gen_random_uuid() IS NOT NULL, random() BETWEEN 0 AND 1, clock_timestamp() IS NOT NULL;
-- results that differed
SELECT log('inf'::numeric, 2), log(2, 'inf'::numeric), log('inf'::numeric, 'inf'::numeric), log('nan'::numeric, 2), log(2, 'nan'::numeric);
SELECT j['1'], j[1], j[-1], j['a']['b'], j['a']['b'][1], j['a']['b']['0'] FROM list;
SELECT j[true] FROM list;
SELECT format('%*s|%-*s|%1$s', 10, 'x', 5, 'y'), format('%2$*1$s', 5, 'a'), format('%*s', NULL::integer, 'a'), format('%s', 7);
SELECT format('%*2s', 1, 'a');
SELECT regexp_split_to_array('123', ''), regexp_split_to_array('a,b', ','), regexp_split_to_array('', ''), regexp_split_to_array('abc', 'b*');
SELECT regexp_match('abcd', '(a|ab)(c|bcd)(d*)'), regexp_match('xay', 'a|ay'), regexp_match('XY1234Z', 'Y*?([0-9]{1,3})'), substring('foobar' from 'o+?b');
SELECT regexp_replace('abcabc', 'b', 'X', 3), regexp_replace('abcabc', 'b', 'X', 1, 2), regexp_substr('abcabc', 'b(c)', 1, 2, '', 1), regexp_instr('abcabc', 'c', 1, 2, 1);
SELECT to_timestamp('2024 10', 'YYYY WW'), to_date('2024 2 3', 'YYYY MM W'), to_date('-44-02-01', 'YYYY-MM-DD'), to_date('21 24', 'CC YY');
SELECT count(*) BETWEEN 1 AND 999 FROM generate_series(1, 1000) WHERE random() < 0.5;
SELECT current_date = now()::date, clock_timestamp() >= now(), statement_timestamp() >= now(), timeofday() IS NOT NULL;
