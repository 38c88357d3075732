-- One statement a line; PostgreSQL 15 and Weir must agree on types, rows and SQLSTATE.
-- NULL logic
SELECT NULL AND true, NULL AND false, NULL OR true, NULL OR false, NOT NULL::boolean
SELECT true AND NULL, false AND NULL, true OR NULL, false OR NULL
SELECT NULL = NULL, NULL <> 1, 1 < NULL, NULL IS NULL, NULL IS NOT NULL, 1 IS NULL
SELECT NULL IS DISTINCT FROM NULL, 1 IS DISTINCT FROM NULL, 1 IS NOT DISTINCT FROM 1, NULL IS NOT DISTINCT FROM 2
SELECT NULL::boolean IS TRUE, NULL::boolean IS FALSE, NULL::boolean IS UNKNOWN, true IS NOT TRUE, false IS NOT UNKNOWN
SELECT 1 IN (1, NULL), 2 IN (1, NULL), 2 NOT IN (1, NULL), 1 NOT IN (1, NULL), NULL IN (1, 2)
SELECT coalesce(NULL, NULL, 3), coalesce(NULL::integer, 2.5), nullif(1, 1), nullif(1, 2), nullif(NULL, 1), nullif(1, NULL)
SELECT greatest(1, NULL, 3), least(NULL, 2, 1), greatest(NULL::integer, NULL), greatest('a', 'b'), least(1, 2.5)
SELECT CASE WHEN NULL THEN 1 ELSE 2 END, CASE NULL WHEN NULL THEN 1 ELSE 2 END, CASE 1 WHEN 1 THEN 'one' WHEN 2 THEN 'two' END
SELECT CASE WHEN false THEN 1 END, CASE 3 WHEN 1 THEN 'x' END
SELECT CASE WHEN true THEN 1 ELSE 1 / 0 END
SELECT CASE WHEN false THEN 1 ELSE 1 / 0 END
SELECT NULL || 'x', 'x' || NULL::text, 1 || 'x', 'x' || 1.50
SELECT 1 + NULL, NULL * 2, -NULL::integer, NULL::text LIKE 'x', 'x' LIKE NULL
SELECT NULL BETWEEN 1 AND 2, 1 BETWEEN NULL AND 2, 3 BETWEEN NULL AND 2, 1 NOT BETWEEN NULL AND 0
SELECT (1, NULL) = (1, NULL), (1, NULL) = (2, NULL), (1, 2) = (1, 2), (1, 2) < (1, 3), (NULL, 2) < (1, 3)
SELECT (1, 2) IN ((1, 2), (3, 4)), (1, NULL) IN ((1, 2)), (1, 3) NOT IN ((1, 2), (NULL, 4))
SELECT ROW(1, NULL) IS NULL, ROW(NULL, NULL) IS NULL, ROW(1, 2) IS NOT NULL, ROW(1, NULL) IS NOT NULL
-- integers
SELECT 7 / 2, -7 / 2, 7 / -2, -7 / -2, 7 % 3, -7 % 3, 7 % -3, -7 % -3
SELECT 1 / 0
SELECT 1 % 0
SELECT 1::bigint / 0
SELECT 1::smallint / 0::smallint
SELECT 2147483647 + 1
SELECT 2147483647::bigint + 1
SELECT -2147483648 - 1
SELECT 65536 * 65536
SELECT 9223372036854775807 + 1
SELECT -9223372036854775808 - 1
SELECT 9223372036854775807 * 2
SELECT 9223372036854775808
SELECT 32767::smallint + 1::smallint
SELECT 32767::smallint + 1
SELECT 300::smallint * 300::smallint
SELECT (-2147483648)::integer / -1
SELECT (-2147483648)::integer % -1
SELECT (-9223372036854775808)::bigint / -1
SELECT -(-2147483648)::integer
SELECT -(-32768)::smallint
SELECT abs(-2147483648)
SELECT abs(-5), abs(-5::bigint), abs(-5.5), abs(-5.5::float8), abs(-5::smallint)
SELECT 40000::smallint
SELECT 3000000000::integer
SELECT '32768'::smallint
SELECT '2147483648'::integer
SELECT '9223372036854775808'::bigint
SELECT 'abc'::integer
SELECT ' 42 '::integer, '+7'::integer, '-0'::integer
SELECT ''::integer
SELECT '1.5'::integer
SELECT '1e3'::integer
SELECT 5 & 3, 5 | 3, 5 # 3, ~5, 1 << 4, 256 >> 2, -1 >> 1
SELECT 1::smallint + 1::bigint, 1::smallint * 2, 2 * 3::bigint
SELECT 2 ^ 10, 2 ^ 0.5, 2.0 ^ 3, 0 ^ 0
SELECT 1 = 1::bigint, 1::smallint < 2::bigint, 3 >= 3::smallint, 1 <> 2
SELECT 1 = 1.0, 1 < 1.5, 2::bigint > 1.5, 1 = 1.0::float8
SELECT mod(7, 3), mod(-7, 3), mod(7.5, 2), div(7.5, 2), div(-7.5, 2), gcd(12, 18), lcm(4, 6)
SELECT mod(5, 0)
SELECT sign(-3), sign(0.0), sign(2.5), sign(-1.5::float8)
SELECT power(2, 3), power(2.0, -1), sqrt(16), sqrt(2.0), exp(0.0), ln(1.0), log(100.0), log(2.0, 64.0)
SELECT sqrt(-1)
SELECT sqrt(-1.0)
SELECT ln(0)
SELECT ln(-1.0)
SELECT power(0, -1)
SELECT power(-2.0, 0.5)
SELECT round(2.5), round(3.5), round(-2.5), round(2.5::float8), round(3.5::float8), round(-2.5::float8), round(0.5::float8)
SELECT ceil(1.2), floor(-1.2), ceiling(-1.8), trunc(1.9), trunc(-1.9), trunc(1.987, 2), round(1.985, 2), round(1234.5, -2)
SELECT ceil(1.2::float8), floor(-1.2::float8), trunc(-1.9::float8)
SELECT 1.5::integer, 2.5::integer, -1.5::integer, -2.5::integer, 0.5::integer, 1.5::float8::integer, 2.5::float8::integer, -0.5::float8::integer
SELECT 2147483647.5::integer
SELECT 3e9::float8::integer
SELECT 'NaN'::float8::integer
SELECT 'NaN'::numeric::integer
SELECT 1e20::bigint
SELECT true::integer, false::integer, 5::boolean, 0::boolean
SELECT 1::bigint::boolean
SELECT true + 1
SELECT 'a' + 1
SELECT 1 + '2', '3' * 2, '7' / 2
SELECT 1 || 2
-- numeric
SELECT 1.10 + 2.205, 1.10 - 2.205, 1.10 * 2.205, 1.0 * 1.00, 0.1 + 0.2
SELECT 1.0 / 3, 2.0 / 3, 10 / 3.0, 1 / 7.0, 100000000.0 / 7, 1.00000 / 3.000, 7.0 / 2.0, 1e10 / 3
SELECT 0.00001 / 3, 12345678901234567890.0 / 7, 1 / 1000000.0, 22 / 7.000000000000
SELECT 1.0 / 0
SELECT 1.0 % 0
SELECT 5.5 % 2, -5.5 % 2, 5.5 % -2, 1.23 % 0.1
SELECT 1.005::numeric(10,2), 1.015::numeric(10,2), -1.005::numeric(10,2), 1.5::numeric(10,0), 2.5::numeric(10,0), 0.05::numeric(3,1)
SELECT 123.456::numeric(5,2), 999.994::numeric(5,2)
SELECT 999.995::numeric(5,2)
SELECT 1000::numeric(5,2)
SELECT 12345::numeric(4,0)
SELECT 0.1::numeric(2,2), 0.99::numeric(2,2)
SELECT 1::numeric(2,2)
SELECT 1e-10::numeric, 1e10::numeric, 1.5e3, 1E-3, .5, 5.
SELECT 'NaN'::numeric, 'NaN'::numeric = 'NaN'::numeric, 'NaN'::numeric > 1e100, 'Infinity'::numeric, '-Infinity'::numeric
SELECT 'Infinity'::numeric - 'Infinity'::numeric, 'Infinity'::numeric * 0, 1 / 'Infinity'::numeric
SELECT 'NaN'::numeric(5,2)
SELECT 'Infinity'::numeric(5,2)
SELECT 1.50 = 1.5, 1.50::text, (1.50 + 0)::text, 1.500 IN (1.5, 2), 0.0 = -0.0
SELECT -0.0, - 0.00::numeric, 0 * -1.5
SELECT '1_000'::numeric
SELECT 'abc'::numeric
SELECT ' 1.5 '::numeric, '1.5e2'::numeric, '-.5'::numeric, '+3'::numeric
SELECT '1.5.2'::numeric
SELECT 123456789012345678901234567890 + 1, 123456789012345678901234567890 * 987654321098765432109876543210
SELECT 99999999999999999999.99 + 0.01, 1e30 - 1, 12345678901234567890 / 3
SELECT round(2.345, 2), round(-2.345, 2), round(2.5, 0), round(25, -1), round(1e20, 2), round(0.5), round(-0.5)
SELECT scale(1.500), trim_scale(1.500), min_scale(1.500), scale(100)
SELECT 1.1::float8::numeric, 1e15::float8::numeric, 0.1::float4::numeric, 123456.789::float4::numeric, 1e-5::float8::numeric
SELECT sqrt(2), sqrt(2::numeric), exp(1.0), exp(1), ln(2.0), ln(10), log(2, 8), power(1.5, 2.5), 2.0 ^ 0.5
SELECT width_bucket(5.35, 0.024, 10.06, 5)
SELECT 1.23::numeric(10,4), 1.23::numeric(10,4) + 1, sum(x) FROM (VALUES (1.10::numeric(5,2)), (2.2)) v(x)
SELECT avg(x), sum(x), min(x), max(x), count(x) FROM (VALUES (1), (2), (2)) v(x)
SELECT avg(x), sum(x) FROM (VALUES (1.5), (2.25), (NULL)) v(x)
SELECT avg(x), sum(x) FROM (VALUES (1::bigint), (9223372036854775807)) v(x)
SELECT avg(x), sum(x) FROM (VALUES (1::smallint), (2::smallint)) v(x)
SELECT avg(x), sum(x) FROM (VALUES (1.5::float8), (2.25)) v(x)
SELECT avg(x), sum(x) FROM (VALUES (1.5::float4), (2.25::float4)) v(x)
SELECT avg(x), sum(x) FROM (VALUES ('1 day'::interval), ('2 hours'::interval)) v(x)
SELECT sum(x), avg(x), min(x), max(x), count(x), count(*), array_agg(x), string_agg(x::text, ','), bool_and(x > 1), jsonb_agg(x) FROM (VALUES (1)) v(x) WHERE false
-- floats
SELECT 0.1::float8 + 0.2::float8, 1e308::float8 * 10
SELECT 1e308::float8 * 10::float8
SELECT 1::float8 / 0
SELECT 1::float8 / 3, 1::float4 / 3::float4, 1::float4 / 3, 100::float8, 1e20::float8, 1e-7::float8, 123456789.123::float8
SELECT 'NaN'::float8, 'Infinity'::float8, '-Infinity'::float8, 'inf'::float8, '-inf'::float4, 'nan'::float4
SELECT 'NaN'::float8 = 'NaN'::float8, 'NaN'::float8 > 'Infinity'::float8, 'Infinity'::float8 - 'Infinity'::float8
SELECT 1e400::float8
SELECT '1e400'::float8
SELECT '1e-400'::float8
SELECT 1e39::float4
SELECT '1e39'::float4
SELECT 3.4028235e38::float4, 1.1754944e-38::float4, 16777217::float4, 0.1::float4, 0.1::float4 = 0.1::float8, 0.1::float4::float8
SELECT -0.0::float8, 0.0::float8 = -0.0::float8, 1.5::float4 + 1.5::float8, 1::float4 + 1
SELECT 1.0::float8::text, 1e21::float8::text, 1e15::float8::text, 123.0::float4::text, 1e-5::float8::text, 0.00012::float8::text
SELECT 'x'::float8
SELECT floor(2.7::float8), ceil(2.1::float8), round(2.567::float8), power(2::float8, 0.5), exp(1::float8), ln(2::float8)
SELECT sin(0), cos(0), pi(), degrees(pi()), radians(180), atan2(1, 1)
-- booleans
SELECT 't'::boolean, 'yes'::boolean, 'off'::boolean, '0'::boolean, 'TRUE'::boolean, ' n '::boolean
SELECT 'maybe'::boolean
SELECT 2::boolean, true::text, false::text, true::varchar(2)
SELECT true > false, true = NULL, NOT true, true <> false
SELECT bool_and(x), bool_or(x), every(x) FROM (VALUES (true), (false), (NULL)) v(x)
SELECT 1 AND true
SELECT 'x' = 1
-- text
SELECT 'a' < 'B', 'a' = 'a ', 'abc' < 'abd', '' < 'a', 'Z' < 'a', 'é' > 'z'
SELECT length('héllo'), char_length('abc'), octet_length('héllo'), bit_length('a'), length(''), length('ab   '::char(5))
SELECT upper('abc'), lower('ABC'), initcap('hello world'), reverse('abc'), repeat('ab', 3), repeat('x', -1)
SELECT substring('hello' from 2 for 3), substring('hello', 2), substring('hello', 0, 3), substring('hello', -1, 4), substr('hello', 3)
SELECT substring('hello', 2, -1)
SELECT left('hello', 2), left('hello', -2), right('hello', 2), right('hello', -2), left('hi', 10)
SELECT position('l' in 'hello'), strpos('hello', 'z'), position('' in 'x')
SELECT trim('  x  '), ltrim('  x'), rtrim('x  '), trim(both 'x' from 'xxaxx'), btrim('xyaxy', 'xy'), trim(leading 'a' from 'aab')
SELECT replace('hello', 'l', 'L'), translate('hello', 'el', 'ip'), overlay('hello' placing 'XX' from 2 for 3)
SELECT lpad('x', 5), lpad('x', 5, 'ab'), rpad('x', 5, 'ab'), lpad('hello', 2), rpad('hello', 2)
SELECT split_part('a,b,c', ',', 2), split_part('a,b,c', ',', 5), split_part('a,b,c', ',', -1)
SELECT split_part('a,b', ',', 0)
SELECT concat('a', NULL, 1, true, 2.50), concat_ws('-', 'a', NULL, 'b'), concat_ws(NULL, 'a', 'b'), 'a' || 'b' || 1
SELECT ascii('A'), chr(65), ascii(''), md5('abc'), to_hex(255), starts_with('hello', 'he')
SELECT chr(0)
SELECT format('%s and %I and %L', 'x', 'a b', 'it''s'), format('%%'), format('%2$s %1$s', 'a', 'b')
SELECT quote_literal('it''s'), quote_ident('a b'), quote_ident('abc'), quote_nullable(NULL)
SELECT 'abc' LIKE 'a%', 'abc' LIKE '_b_', 'abc' LIKE 'ab', 'a%c' LIKE 'a\%c', 'abc' NOT LIKE 'x%', 'ABC' ILIKE 'abc', 'a_c' LIKE 'a$_c' ESCAPE '$'
SELECT 'abc' LIKE 'abc\'
SELECT 'abcd' LIKE 'abc\'
SELECT 'xbc' LIKE 'abc\'
SELECT 'a' LIKE 'a' ESCAPE 'xx'
SELECT '' LIKE '', '' LIKE '%', 'abc' LIKE '%%%', 'abc' LIKE '%b%', 'aXbXc' LIKE '%X%X%', 'héllo' LIKE 'h_llo'
SELECT 'abc' ~ '^a', 'abc' ~* 'B', 'abc' !~ 'x', 'abc' !~* 'C', 'a1' ~ '\d'
SELECT 'abc' ~ '('
SELECT regexp_replace('hello world', 'o', '0'), regexp_replace('hello world', 'o', '0', 'g'), regexp_replace('abc', '(b)', '[\1]')
SELECT to_char(1234.5, 'FM9,999.00'), to_char(DATE '2024-02-29', 'YYYY-MM-DD')
SELECT 'abc'::varchar(2), 'abc'::char(2), 'abc'::varchar(5), 'a'::char(3), 'a'::char(3) || 'b', 'a '::char(3) = 'a'
SELECT 'a'::char(3)::text || 'x', length('a  '::char(3)), 'a  '::text = 'a'::text, 'a  '::char(5) = 'a'::char(3), 'a'::char(3) = 'a  '::text
SELECT 'abc'::char
SELECT cast('abc' AS varchar(2)), 'héllo'::varchar(2), 12345::varchar(3), true::char(2)
SELECT ''::char(2), ''::char(2) = ' ', 'a'::char(4) LIKE 'a', 'a'::char(4) LIKE 'a   '
SELECT upper('ab'::char(4)), 'a'::char(2) < 'b'::char(3), concat('a'::char(3), 'b'), 'x' || 'a'::char(3) || 'y'
SELECT min(x), max(x) FROM (VALUES ('b'::char(3)), ('a'::char(3))) v(x)
SELECT E'a\nb\t\\', 'it''s', U&'\0041', $$dollar$$, 'a' 'b'
SELECT string_to_array('a,b,,c', ','), string_to_array('a,b', NULL), array_to_string(ARRAY['a', NULL, 'b'], ','), array_to_string(ARRAY[1, NULL, 3], ',', '*')
SELECT 'abc'::bytea, '\x616263'::bytea, encode('\x0102'::bytea, 'hex'), decode('0102', 'hex'), length('\x0102'::bytea), '\x01'::bytea || '\x02'::bytea
SELECT '\xzz'::bytea
SELECT '\x01'::bytea < '\x02'::bytea, '\x'::bytea = ''::bytea, encode('abc'::bytea, 'base64'), substring('\x010203'::bytea from 2 for 1)
-- dates and times
SELECT DATE '2024-02-29', '2024-02-29'::date + 1, '2024-03-01'::date - 1, '2024-03-01'::date - '2024-02-01'::date
SELECT '2023-02-29'::date
SELECT '2024-13-01'::date
SELECT 'abc'::date
SELECT '20240229'::date, '2024-2-9'::date, 'Feb 29 2024'::date, 'January 8, 1999'::date, '0099-01-01'::date, 'infinity'::date, '-infinity'::date
SELECT '2024-02-29 24:00:00'::timestamp, '2024-02-29 12:34:56.7891234'::timestamp, '2024-02-29T12:34'::timestamp, '2024-02-29'::timestamp
SELECT '2024-02-29 25:00:00'::timestamp
SELECT '2024-02-29 12:60:00'::timestamp
SELECT '2024-02-29 12:34:56+02'::timestamptz, '2024-02-29 12:34:56'::timestamptz, '2024-02-29 12:34:56Z'::timestamptz, '2024-02-29 12:34:56-05:30'::timestamptz
SELECT '2024-02-29 12:34:56+02'::timestamp, '2024-02-29 12:34:56'::timestamp::date, '2024-02-29'::date::timestamp, '2024-02-29 12:00:00+00'::timestamptz::timestamp
SELECT '2024-01-31'::date + '1 month'::interval, '2024-01-31'::timestamp + '1 month', '2024-03-31'::timestamp - '1 month'::interval, '2024-02-29'::timestamp + '1 year'::interval
SELECT '2024-02-29 12:00'::timestamp - '2024-02-28 11:00'::timestamp, '2024-02-28'::timestamp - '2024-02-29 12:00'::timestamp, '2024-03-01'::date - '2024-02-01'::timestamp
SELECT '2024-02-29'::date < '2024-03-01'::timestamp, '2024-02-29'::date = '2024-02-29 00:00'::timestamp, '2024-02-29'::date = '2024-02-29 00:00+00'::timestamptz
SELECT '1 day'::interval, '36 hours'::interval, '1 year 2 months 3 days 04:05:06'::interval, '-1 day'::interval, '1 day -1 hour'::interval, 'P1Y2M3DT4H5M6S'::interval, '1.5 days'::interval, '90 minutes'::interval
SELECT '1 mon'::interval = '30 days'::interval, '1 day'::interval = '24 hours'::interval, '1 day'::interval < '25 hours'::interval, '1 year'::interval > '364 days'::interval
SELECT '1 day'::interval * 2, '1 day'::interval * 1.5, '1 day'::interval / 2, '1 month'::interval / 2, 2 * '1 hour'::interval, -'1 day'::interval, '1 day'::interval + '1 hour'::interval, '1 day'::interval - '25 hours'::interval
SELECT '1 day'::interval / 0
SELECT 'abc'::interval
SELECT extract(year from '2024-02-29'::date), extract(month from '2024-02-29 12:34:56'::timestamp), extract(epoch from '2024-02-29 00:00:00'::timestamp), extract(dow from '2024-02-29'::date), extract(doy from '2024-12-31'::date), extract(second from '2024-02-29 12:34:56.789'::timestamp)
SELECT extract(day from '1 year 2 months 3 days'::interval), extract(epoch from '1 day'::interval), extract(hour from '25:00:00'::interval), date_part('year', '2024-02-29'::date), extract(week from '2024-01-01'::date), extract(quarter from '2024-05-01'::date), extract(isodow from '2024-03-03'::date)
SELECT date_trunc('month', '2024-02-29 12:34:56'::timestamp), date_trunc('hour', '2024-02-29 12:34:56+00'::timestamptz), date_trunc('year', '2024-02-29'::date), date_trunc('day', '1 day 12:34:56'::interval), date_trunc('week', '2024-02-29'::timestamp)
SELECT date_trunc('fortnight', '2024-02-29'::timestamp)
SELECT age('2024-02-29'::timestamp, '2000-01-31'::timestamp), age('2024-03-01'::timestamp, '2024-02-29'::timestamp)
SELECT make_date(2024, 2, 29), make_timestamp(2024, 2, 29, 12, 34, 56.5)
SELECT make_date(2023, 2, 29)
SELECT to_timestamp(0), to_timestamp(1709209496.5), to_date('2024-02-29', 'YYYY-MM-DD'), to_char('2024-02-29 12:34:56'::timestamp, 'YYYY-MM-DD HH24:MI:SS')
SELECT '2024-02-29 12:34:56'::timestamp::text, '2024-02-29'::date::text, '2024-02-29 12:34:56.5+00'::timestamptz::text, '1 day 02:00:00'::interval::text
SELECT 'infinity'::timestamp > '2024-01-01'::timestamp, 'infinity'::timestamp + '1 day'::interval, '-infinity'::timestamp
SELECT '2024-02-29'::date + '12 hours'::interval, '2024-02-29'::date - 31, 5 + '2024-02-29'::date, '294277-01-01'::timestamp
SELECT '5874898-01-01'::date
SELECT '4714-11-24 BC'::date, '0044-03-15 BC'::date, '2024-02-29'::date > '0044-03-15 BC'::date
SELECT min(x), max(x), count(DISTINCT x) FROM (VALUES ('2024-02-29'::date), ('2023-01-01'), ('2024-02-29')) v(x)
SELECT timestamp '2024-02-29 12:00' AT TIME ZONE 'UTC', timestamptz '2024-02-29 12:00+00' AT TIME ZONE 'UTC'
-- uuid, arrays, jsonb
SELECT 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid, '{a0eebc999c0b4ef8bb6d6bb9bd380a11}'::uuid, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid < 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
SELECT 'xyz'::uuid
SELECT ARRAY[1, 2, 3], ARRAY[1, 2] || 3, 0 || ARRAY[1, 2], ARRAY[1] || ARRAY[2, 3], ARRAY[]::integer[], '{1,2,NULL}'::integer[]
SELECT (ARRAY[1, 2, 3])[2], (ARRAY[1, 2, 3])[0], (ARRAY[1, 2, 3])[4], (ARRAY[1, 2, 3])[2:3], (ARRAY[1, 2, 3])[:2], (ARRAY[1, 2, 3])[5:6], (ARRAY[1, 2])[NULL::integer]
SELECT ARRAY[1, 2] = ARRAY[1, 2], ARRAY[1, 2] < ARRAY[1, 3], ARRAY[1, 2] < ARRAY[1, 2, 0], ARRAY[1, NULL] = ARRAY[1, NULL]
SELECT 1 = ANY(ARRAY[1, 2]), 3 = ANY(ARRAY[1, NULL]), 1 <> ALL(ARRAY[2, 3]), 5 > ALL(ARRAY[1, NULL]), 1 = ANY('{1,2}'), 2 > ANY(ARRAY[]::integer[]), 2 > ALL(ARRAY[]::integer[])
SELECT ARRAY[1, 2] @> ARRAY[2], ARRAY[1] <@ ARRAY[1, 2], ARRAY[1, 2] && ARRAY[2, 3], ARRAY[1, NULL] @> ARRAY[NULL]::integer[]
SELECT array_length(ARRAY[1, 2, 3], 1), array_length(ARRAY[]::integer[], 1), cardinality(ARRAY[1, 2]), array_upper(ARRAY[1, 2], 1), array_lower(ARRAY[1, 2], 1)
SELECT array_append(ARRAY[1], 2), array_prepend(0, ARRAY[1]), array_cat(ARRAY[1], ARRAY[2]), array_remove(ARRAY[1, 2, 1], 1), array_position(ARRAY['a', 'b'], 'b'), array_replace(ARRAY[1, 2], 2, 5)
SELECT '{1,x}'::integer[]
SELECT '{"a b",c,"NULL",NULL}'::text[], ARRAY['a"b', 'c\d', '', 'null'], ARRAY[1.5, 2], ARRAY[1, 2]::text[], ARRAY['1', '2']::integer[]
SELECT array_agg(x ORDER BY x DESC), array_agg(DISTINCT x), array_agg(x) FILTER (WHERE x > 1) FROM (VALUES (1), (3), (2), (3)) v(x)
SELECT string_agg(x, ','), string_agg(x, '-' ORDER BY x DESC), string_agg(DISTINCT x, '') FROM (VALUES ('b'), ('a'), (NULL), ('b')) v(x)
SELECT * FROM unnest(ARRAY[1, 2, NULL]) u
SELECT * FROM unnest(ARRAY[1, 2, 3], ARRAY['a', 'b']) AS t(x, y)
SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS t(x, n) ORDER BY n DESC
SELECT * FROM generate_series(1, 5) g
SELECT * FROM generate_series(5, 1, -2) g
SELECT * FROM generate_series(1, 0) g
SELECT * FROM generate_series(1, 5, 0) g
SELECT * FROM generate_series(1.0, 2.0, 0.25) g
SELECT * FROM generate_series('2024-02-28'::timestamp, '2024-03-02'::timestamp, '1 day'::interval) g
SELECT g, g * g FROM generate_series(1, 3) AS g WHERE g % 2 = 1
SELECT '{"a": 1, "b": {"c": [1, 2]}}'::jsonb -> 'a', '{"a": 1}'::jsonb ->> 'a', '[1, 2]'::jsonb -> 1, '[1, 2]'::jsonb -> -1, '{"a": null}'::jsonb -> 'a', '{"a": null}'::jsonb ->> 'a', '{}'::jsonb -> 'x'
SELECT '{"b": 1, "a": 2, "a": 3}'::jsonb, '{"bb": 1, "a": 2}'::jsonb, '[1.50, 1e2, "x\u0041"]'::jsonb, ' null '::jsonb
SELECT '{"a": }'::jsonb
SELECT '{"a": 1, "b": 2}'::jsonb @> '{"a": 1}'::jsonb, '{"a": 1}'::jsonb ? 'a', '[1, 2]'::jsonb @> '[2]'::jsonb, '{"a": 1}'::jsonb <@ '{"a": 1, "b": 2}'::jsonb, '{"a": 1}'::jsonb || '{"b": 2}'::jsonb, '{"a": 1, "b": 2}'::jsonb - 'a'
SELECT '1'::jsonb = '1.0'::jsonb, '{"a": 1}'::jsonb = '{"a": 1.0}'::jsonb, '"a"'::jsonb < '"b"'::jsonb, '[1]'::jsonb < '[1, 2]'::jsonb
SELECT jsonb_build_object('a', 1, 'b', 'x'), jsonb_build_array(1, 'x', NULL), to_jsonb('x'::text), to_jsonb(1.50), jsonb_array_length('[1, 2]'::jsonb), jsonb_typeof('1'::jsonb)
SELECT jsonb_agg(x ORDER BY x) FROM (VALUES (2), (1), (NULL)) v(x)
SELECT ('{"a": 5}'::jsonb -> 'a')::integer, ('{"a": true}'::jsonb -> 'a')::boolean, ('{"a": 1.5}'::jsonb -> 'a')::numeric
SELECT ('{"a": "x"}'::jsonb -> 'a')::integer
-- errors of names and types
SELECT nothing FROM r
SELECT * FROM nothing
SELECT r.nothing FROM r
SELECT nothing(1)
SELECT a FROM r, s
SELECT a, count(*) FROM r
SELECT count(*) FROM r WHERE count(*) > 1
SELECT sum(t) FROM r
SELECT 1 UNION SELECT 'x'
SELECT 1 UNION SELECT 1, 2
SELECT a FROM r ORDER BY 2
SELECT (SELECT a FROM r)
SELECT (SELECT a, b FROM r WHERE a = 1)
SELECT a FROM r WHERE b
SELECT a FROM r LIMIT -1
SELECT a FROM r OFFSET -1
SELECT a FROM r WHERE a = 'x'
SELECT a FROM r WHERE t = 1
SELECT * FROM r WHERE (a, b) = (1, 2, 3)
SELECT CASE WHEN true THEN 1 ELSE 'x' END
SELECT coalesce(1, 'x')
SELECT ARRAY[1, 'x']
SELECT max(DISTINCT a, b) FROM r
SELEC 1
-- the table of every type
SELECT * FROM typed ORDER BY id
SELECT id, flag, NOT flag, flag AND id > 2, flag OR id > 2, flag IS TRUE FROM typed ORDER BY id
SELECT id, small + whole FROM typed WHERE id < 3
SELECT id, small + whole FROM typed WHERE id = 4
SELECT id, whole * 2 FROM typed WHERE id = 5
SELECT id, large - 1 FROM typed WHERE id = 5
SELECT id, whole / small FROM typed WHERE id IN (1, 2, 6) ORDER BY id
SELECT id, money * 1.1, money / 3, money + exact, round(money * 1.005, 2), -money, money::integer FROM typed WHERE id <> 4 ORDER BY id
SELECT id, money::integer FROM typed WHERE id = 4
SELECT sum(money), avg(money), min(exact), max(exact), sum(exact), avg(exact), count(money) FROM typed
SELECT sum(single), avg(double), sum(whole), avg(small), sum(large) FROM typed WHERE id < 3
SELECT sum(single), sum(double), sum(whole), avg(small), sum(large) FROM typed WHERE id < 3
SELECT avg(single) FROM typed WHERE id <> 4
SELECT sum(double * 1e300) FROM typed WHERE id < 3
SELECT sum(x) FROM (VALUES (1e308::float8), (1e308::float8)) v(x)
SELECT sum(x) FROM (VALUES (16777216::float4), (1::float4), (1::float4)) v(x)
SELECT avg(x) FROM (VALUES (1e308::float8), (1.5e308::float8)) v(x)
SELECT id, words || '-' || name || '-' || code FROM typed ORDER BY id
SELECT id, length(code), code || '|', code = 'AB', code::text || '|', octet_length(code) FROM typed ORDER BY id
SELECT id FROM typed WHERE code = 'AB   ' ORDER BY id
SELECT id FROM typed WHERE code = 'AB' AND day > '2000-01-01'
SELECT id FROM typed WHERE code = 'AB'::text ORDER BY id
SELECT id FROM typed WHERE code >= 'AB' AND code < 'B' ORDER BY id
SELECT id FROM typed WHERE name = 'Ann' ORDER BY id DESC
SELECT id FROM typed WHERE name LIKE 'A%' ORDER BY id
SELECT id FROM typed WHERE name IN ('Ann', 'Bob', 'nobody') ORDER BY id
SELECT id FROM typed WHERE small = 1
SELECT id FROM typed WHERE small = 40000
SELECT id FROM typed WHERE small < 40000 ORDER BY id
SELECT id FROM typed WHERE small > -40000 ORDER BY id
SELECT id FROM typed WHERE small > 40000
SELECT id FROM typed WHERE small = 1.5
SELECT id FROM typed WHERE small BETWEEN 1 AND 6 ORDER BY small DESC
SELECT id FROM typed WHERE small IN (1, 2, 99999, NULL)
SELECT id FROM typed WHERE exact = 1.50
SELECT id FROM typed WHERE exact > 0 ORDER BY exact
SELECT id FROM typed WHERE exact >= -0.001 ORDER BY exact DESC
SELECT min(small), max(small) FROM typed
SELECT min(id), max(id) FROM typed WHERE id > 2
SELECT max(exact) FROM typed
SELECT min(name), max(name) FROM typed
SELECT id, day + 1, moment + '1 day', instant - '1 hour'::interval, moment - day, span * 2 FROM typed ORDER BY id
SELECT id FROM typed WHERE day BETWEEN '2000-01-01' AND '2024-02-29' ORDER BY day, id
SELECT id FROM typed WHERE instant = '2024-02-29 13:34:56+01'
SELECT id FROM typed ORDER BY moment DESC NULLS LAST
SELECT id FROM typed ORDER BY span, id
SELECT id FROM typed ORDER BY ident
SELECT id FROM typed ORDER BY bytes NULLS FIRST
SELECT id FROM typed ORDER BY doc, id
SELECT id FROM typed ORDER BY numbers, id
SELECT id FROM typed ORDER BY double, single
SELECT id FROM typed ORDER BY words COLLATE "C"
SELECT id, doc -> 'a', doc ->> 'c', doc -> 'b' -> 1 FROM typed ORDER BY id
SELECT id, numbers[1], numbers[2:3], 6 = ANY(numbers), array_length(numbers, 1), labels || 'z' FROM typed ORDER BY id
SELECT count(*), count(flag), count(DISTINCT name), count(DISTINCT code) FROM typed
SELECT name, count(*), sum(id) FROM typed GROUP BY name ORDER BY name
SELECT code, count(*) FROM typed GROUP BY code HAVING count(*) > 1
SELECT flag, min(day), max(moment), min(span), max(ident::text) FROM typed GROUP BY flag ORDER BY flag NULLS FIRST
SELECT DISTINCT flag FROM typed ORDER BY flag
SELECT DISTINCT exact::integer FROM typed WHERE id <> 4 ORDER BY 1
SELECT DISTINCT ON (name) name, id FROM typed ORDER BY name, id DESC
SELECT DISTINCT ON (flag) flag, id FROM typed ORDER BY flag, id
SELECT id FROM typed WHERE id = $$2$$::integer
-- joins, subqueries, grouping over the small tables
SELECT * FROM r ORDER BY a
SELECT r.*, s.d FROM r JOIN s ON r.a = s.a ORDER BY r.a, s.b
SELECT r.a, s.b FROM r LEFT JOIN s ON r.a = s.a AND s.b > 1 ORDER BY 1, 2
SELECT r.a, s.a FROM r RIGHT JOIN s ON r.a = s.c ORDER BY 1, 2
SELECT r.a, u.a FROM r FULL JOIN u ON r.a = u.a ORDER BY 1, 2
SELECT count(*) FROM r CROSS JOIN s CROSS JOIN u
SELECT r.a FROM r JOIN s USING (a, b) ORDER BY a
SELECT * FROM r NATURAL JOIN s ORDER BY a
SELECT a, b, r.t, s.d FROM r FULL JOIN s USING (a, b) ORDER BY a, b
SELECT x.a, y.a FROM r x, r y WHERE x.a = y.b ORDER BY 1, 2
SELECT r.a, (SELECT count(*) FROM s WHERE s.a = r.a) FROM r ORDER BY 1
SELECT r.a, (SELECT sum(d) FROM s WHERE s.c = r.b) FROM r ORDER BY 1
SELECT r.a, (SELECT max(s.b) FROM s WHERE s.a = r.a AND s.c IS NOT NULL) FROM r ORDER BY 1
SELECT r.a, (SELECT count(*) + 10 FROM u WHERE u.b = r.b) FROM r ORDER BY 1
SELECT r.a, (SELECT coalesce(sum(u.c), -1) FROM u WHERE u.a = r.a AND u.b = r.b) FROM r ORDER BY 1
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.c = r.c) ORDER BY a
SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c = r.c) ORDER BY a
SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.b = 1) ORDER BY a
SELECT a FROM r WHERE c IN (SELECT c FROM u) ORDER BY a
SELECT a FROM r WHERE c NOT IN (SELECT c FROM u) ORDER BY a
SELECT a FROM r WHERE c NOT IN (SELECT c FROM u WHERE c IS NOT NULL) ORDER BY a
SELECT a FROM r WHERE (a, b) IN (SELECT a, b FROM s) ORDER BY a
SELECT a FROM r WHERE (a, c) NOT IN (SELECT b, a FROM u) ORDER BY a
SELECT a FROM r WHERE b > ALL (SELECT b FROM u WHERE b IS NOT NULL) ORDER BY a
SELECT a FROM r WHERE b > ANY (SELECT b FROM u) ORDER BY a
SELECT a FROM r WHERE b = (SELECT max(b) FROM r) ORDER BY a
SELECT a FROM r WHERE b = (SELECT b FROM s WHERE s.a = r.a)
SELECT ARRAY(SELECT a FROM r WHERE b = 1 ORDER BY a DESC)
SELECT r.a, ARRAY(SELECT s.b FROM s WHERE s.a = r.a ORDER BY s.b) FROM r ORDER BY 1
SELECT b, count(*), sum(c), avg(c), min(t), max(t) FROM r GROUP BY b ORDER BY b
SELECT b + 1, count(*) FROM r GROUP BY b + 1 ORDER BY 1
SELECT b, count(*) AS n FROM r GROUP BY 1 HAVING sum(c) > 2 ORDER BY n, b
SELECT r.a, r.t, count(s.a) FROM r LEFT JOIN s ON s.a = r.a GROUP BY r.a ORDER BY r.a
SELECT count(*) FILTER (WHERE b > 1), sum(c) FILTER (WHERE b = 1), count(DISTINCT b) FROM r
SELECT max(c) - min(c) + 1 = count(*) FROM r WHERE b = 1
SELECT b FROM r GROUP BY b HAVING count(*) = (SELECT max(n) FROM (SELECT count(*) AS n FROM r GROUP BY b) x) ORDER BY b
SELECT sum(n) FROM (SELECT count(*) AS n FROM s GROUP BY a) x
SELECT a FROM r UNION SELECT a FROM u ORDER BY 1
SELECT b FROM r UNION ALL SELECT b FROM s ORDER BY 1
SELECT b FROM r INTERSECT SELECT b FROM s ORDER BY 1
SELECT b FROM r INTERSECT ALL SELECT b FROM s ORDER BY 1
SELECT b FROM r EXCEPT SELECT b FROM s ORDER BY 1
SELECT b FROM r EXCEPT ALL SELECT b FROM s ORDER BY 1
SELECT 1 AS x UNION SELECT 2.5 UNION SELECT NULL ORDER BY x
(SELECT a FROM r ORDER BY a LIMIT 2) UNION ALL (SELECT a FROM s ORDER BY a DESC LIMIT 1) ORDER BY 1
WITH x AS (SELECT b, count(*) AS n FROM r GROUP BY b) SELECT * FROM x WHERE n > 1 ORDER BY b
WITH x AS (SELECT a FROM r), y AS (SELECT a FROM x WHERE a > 5) SELECT count(*) FROM x, y
WITH x AS (SELECT max(b) AS m FROM r) SELECT a FROM r WHERE b = (SELECT m FROM x) ORDER BY a
WITH x(p, q) AS (VALUES (1, 'a'), (2, 'b')) SELECT p, q, t FROM x JOIN r ON r.a = p ORDER BY p
VALUES (1, 'a'), (2, NULL), (3, 'c')
SELECT * FROM (VALUES (1, 'x'), (2, 'y')) AS v(n, s) WHERE n > 1
SELECT a, c FROM r ORDER BY c, a
SELECT a, c FROM r ORDER BY c DESC, a DESC
SELECT a, c FROM r ORDER BY c NULLS FIRST, a
SELECT a, c FROM r ORDER BY c DESC NULLS LAST, a LIMIT 3 OFFSET 2
SELECT a FROM r ORDER BY a DESC LIMIT 1
SELECT a FROM s WHERE a = 1 ORDER BY b DESC LIMIT 1
SELECT c, b, a FROM s ORDER BY c DESC NULLS LAST, b, a LIMIT 4
SELECT c FROM s ORDER BY c DESC NULLS LAST LIMIT 3
SELECT c FROM s ORDER BY c NULLS FIRST LIMIT 5
SELECT max(c), min(c) FROM s
SELECT max(c) FROM s
SELECT min(c) FROM s
SELECT max(b) FROM s WHERE a = 1
SELECT min(b) FROM s WHERE a = 5 AND b > 1
SELECT max(b) FROM s WHERE a = 77
SELECT c FROM s WHERE c > 1 ORDER BY c
SELECT c FROM s WHERE c <= 2 ORDER BY c
SELECT a, b FROM s WHERE a = 1 AND b IN (1, 3, 5, 3) ORDER BY b
SELECT a, b FROM s WHERE a = 1 AND b BETWEEN 2 AND 3 ORDER BY b
SELECT a, b FROM s WHERE a = 1 AND b > 3000000000
SELECT a FROM r WHERE a = 5000000000
SELECT a FROM r LIMIT 0
SELECT a FROM r ORDER BY a LIMIT NULL OFFSET 8
SELECT a FROM r ORDER BY a LIMIT 2 + 1
SELECT r.a, x.n FROM r, LATERAL (SELECT count(*) AS n FROM s WHERE s.a = r.a) x ORDER BY r.a
SELECT r.a, x.b FROM r LEFT JOIN LATERAL (SELECT b FROM s WHERE s.a = r.a ORDER BY b DESC LIMIT 1) x ON true ORDER BY r.a
SELECT r.a, g FROM r, generate_series(1, r.b) g WHERE r.a < 5 ORDER BY 1, 2
SELECT r.a, x.n FROM r JOIN (SELECT a, count(*) AS n FROM s GROUP BY a) x ON x.a = r.a ORDER BY 1
SELECT r.a, x.n FROM r LEFT JOIN (SELECT a, count(*) AS n FROM s GROUP BY a) x ON x.a = r.a WHERE x.n IS NULL ORDER BY 1
SELECT count(*) FROM r LEFT JOIN s ON r.a = s.a WHERE s.a IS NULL
SELECT r.a, s.b, u.c FROM r LEFT JOIN s ON s.a = r.a LEFT JOIN u ON u.a = s.b ORDER BY 1, 2, 3
SELECT r.a, s.a, u.a FROM r JOIN (s JOIN u ON s.b = u.a) ON r.a = s.a ORDER BY 1, 2, 3
SELECT r.a, s.a, u.a FROM r LEFT JOIN (s JOIN u ON s.b = u.a) ON r.a = s.a ORDER BY 1, 2, 3
SELECT a FROM r WHERE a = 1 OR b = 8 ORDER BY a
SELECT a FROM r WHERE false
SELECT count(*) FROM r WHERE NULL
SELECT 1 WHERE 1 = 2
SELECT 1 FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a > 100)
SELECT a FROM r WHERE 1 / (a - 1) > 0 AND a > 1
SELECT (SELECT 1 WHERE false), EXISTS (SELECT 1 FROM r), NOT EXISTS (SELECT 1 FROM r)
SELECT a, CASE WHEN c IS NULL THEN 'none' WHEN c > 3 THEN 'many' ELSE 'few' END FROM r ORDER BY a
SELECT sum(CASE WHEN c > 1 THEN b ELSE 0 END), count(NULLIF(b, 1)) FROM r
SELECT a, CASE c WHEN 3 THEN 'three' WHEN 1 THEN 'one' WHEN 3 THEN 'never' ELSE 'other' END, CASE c WHEN 1 THEN a END, CASE a WHEN 1 THEN 1 WHEN 2 THEN 1 / (a - 2) END FROM r WHERE a <> 2 ORDER BY a
SELECT (SELECT sum(s.b) FROM s WHERE s.a = r.a) + (SELECT count(*) FROM u WHERE u.a = r.a) FROM r ORDER BY 1
SELECT r.b, sum(r.a + s.b) FROM r, s WHERE r.c = s.c GROUP BY r.b ORDER BY r.b
SELECT NOT EXISTS (SELECT 1 FROM r WHERE c <> (SELECT count(*) FROM s WHERE s.a = r.a))
SELECT NOT EXISTS (SELECT 1 FROM r WHERE b <> (SELECT coalesce(sum(u.b), 0) FROM u WHERE u.a = r.a))
SELECT count(*) FROM r WHERE (SELECT count(*) FROM u WHERE u.b = r.b) = 1
