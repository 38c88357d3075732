//! What a session with another TimeZone than UTC does and says is what it does and says on PostgreSQL, on one shard and on three.

mod alone;
mod answers;

use std::io::{Read, Write};

use alone::Alone;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = "
CREATE TABLE moment (id integer PRIMARY KEY, z timestamptz, t timestamp, d date, zs timestamptz[], n integer NOT NULL DEFAULT 0);
CREATE TABLE day (id integer PRIMARY KEY, made timestamptz NOT NULL DEFAULT '2024-07-01 12:00+00', on_day date, hour integer,
    CHECK (extract(hour FROM made) <> 3));
CREATE FUNCTION day_of() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.on_day := NEW.made::date; NEW.hour := extract(hour FROM NEW.made); RETURN NEW; END $$;
CREATE TRIGGER day_of BEFORE INSERT OR UPDATE ON day FOR EACH ROW EXECUTE FUNCTION day_of();
CREATE PROCEDURE put(k integer, at timestamptz) LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO moment (id, z, t, d) VALUES (k, at, at, at);
    UPDATE moment SET z = z + interval '1 day' WHERE id = k; END $$;
CREATE PROCEDURE put_local(k integer) LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO moment (id, z) VALUES (k, '2024-01-15 08:00'); END $$;
CREATE FUNCTION shown(k integer) RETURNS text LANGUAGE plpgsql AS $$ DECLARE s text; BEGIN
    SELECT z::text INTO s FROM moment WHERE id = k; RETURN s; END $$;
";

const SCRIPT: &str = "
a: SET TimeZone = 'UTC'
a: SHOW TimeZone
a: INSERT INTO moment (id, z, t, d) VALUES (1, '2024-03-10 06:30', '2024-03-10 06:30', '2024-03-10'), (2, '2024-11-03 05:30+00', '2024-11-03 01:30', '2024-11-03')
a: INSERT INTO moment (id, z, t, d) VALUES (3, '2011-12-29 23:00+00', '2011-12-30 12:00', '2011-12-30'), (4, NULL, NULL, NULL), (5, 'infinity', '-infinity', 'infinity')
a: INSERT INTO moment (id, z, t, d) VALUES (6, '1850-01-01 00:00:00.5+00', '1850-01-01 00:00:00.5', '1850-01-01'), (7, '9999-07-01 12:00+00', '9999-07-01 12:00', '9999-07-01')
a: UPDATE moment SET zs = ARRAY[z, z + interval '1 hour'] WHERE id < 4
a: SET TIME ZONE 'america/new_york'
a: SHOW TimeZone
a: SELECT id, z, t, d, zs FROM moment ORDER BY id
a: SELECT id, z::text, z::varchar(13), z::date, z::timestamp, t::timestamptz, d::timestamptz FROM moment ORDER BY id
a: SELECT to_jsonb(z), json_build_object('z', z, 't', t), ROW(z, t), ARRAY[z], concat(z, '/', t), 'x' || z FROM moment WHERE id = 1
a: SELECT row_to_json(m) FROM (SELECT id, z FROM moment WHERE id < 3 ORDER BY id) m
a: SELECT id, extract(hour FROM z), extract(day FROM z), extract(epoch FROM z), extract(timezone FROM z), extract(timezone_hour FROM z), extract(timezone_minute FROM z), date_part('dow', z), extract(julian FROM z) FROM moment WHERE id < 5 ORDER BY id
a: SELECT id, date_trunc('day', z), date_trunc('hour', z), date_trunc('month', z), date_trunc('week', z), date_trunc('minute', z) FROM moment ORDER BY id
a: SELECT to_char(z, 'YYYY-MM-DD HH24:MI:SS TZ tz OF TZH:TZM'), to_char(t, 'HH24:MI TZ OF') FROM moment WHERE id < 4 ORDER BY id
a: SELECT to_timestamp('2024-07-01 12:00', 'YYYY-MM-DD HH24:MI'), to_timestamp('2024-01-01 12:00 +03', 'YYYY-MM-DD HH24:MI TZH'), to_timestamp(0)
a: SELECT make_timestamptz(2024, 3, 10, 2, 30, 0), make_timestamptz(2024, 11, 3, 1, 30, 0), make_timestamptz(2024, 11, 3, 1, 30, 0, 'UTC')
a: SELECT id, z + interval '1 day', z + interval '24 hours', z - interval '1 month', z + interval '1 month 1 day 1 hour' FROM moment WHERE id < 4 ORDER BY id
a: SELECT timestamptz '2024-03-09 02:30' + interval '1 day', timestamptz '2024-11-02 01:30' + interval '1 day', timestamptz '2024-11-03 01:30' - interval '1 hour'
a: SELECT timestamptz '2024-03-10 02:30', timestamptz '2024-11-03 01:30', timestamptz '2024-11-03 01:30 EDT', '2024-07-01'::timestamptz, 'epoch'::timestamptz
a: SELECT age(timestamptz '2024-07-01 00:00', timestamptz '2024-01-01 00:00'), age(z, '2000-01-01 00:00') FROM moment WHERE id < 4 ORDER BY id
a: SELECT timestamptz '2024-07-01 00:00' - timestamptz '2024-01-01 00:00'
a: SELECT * FROM generate_series('2024-03-09 12:00'::timestamptz, '2024-03-12 12:00'::timestamptz, interval '1 day') g
a: SELECT * FROM generate_series('2024-11-02 12:00'::timestamptz, '2024-11-04 12:00'::timestamptz, interval '12 hours') g
a: SELECT id FROM moment WHERE z = t + interval '1 hour' OR z = '2024-03-10 01:30' ORDER BY id
a: SELECT id FROM moment WHERE z > '2024-03-10 01:29' ORDER BY id
a: SELECT id FROM moment WHERE z < timestamp '2024-03-10 01:30' ORDER BY id
a: SELECT id FROM moment WHERE z < date '2024-03-10' ORDER BY id
a: SELECT id FROM moment WHERE z >= t ORDER BY id
a: SELECT z::date, count(*) FROM moment GROUP BY 1 ORDER BY 1
a: SELECT date_trunc('month', z), count(*), min(z), max(t::timestamptz) FROM moment WHERE id <> 5 GROUP BY 1 ORDER BY 1
a: SELECT current_date = now()::date, localtimestamp = now()::timestamp, current_timestamp = localtimestamp, now()::date = (now() AT TIME ZONE 'America/New_York')::date
a: SELECT '2024-01-01 12:00 Europe/Berlin'::timestamptz, timestamptz '2024-01-01 12:00' AT TIME ZONE 'Europe/Berlin', timestamp '2024-01-01 12:00' AT TIME ZONE 'Asia/Tokyo'
a: SELECT ('2024-01-01 ' || '10:00')::timestamptz, '{2024-01-01 10:00,2024-07-01 10:00}'::timestamptz[], 'x ' || timestamptz '2024-01-01 10:00'
a: SELECT greatest(z, '2024-03-10 12:00'), coalesce(z, '2024-01-01 00:00'), CASE WHEN z > '2024-03-10 01:00' THEN z ELSE t END FROM moment ORDER BY id
a: SELECT min(z) FILTER (WHERE z > '2012-01-01 00:00'), array_agg(z ORDER BY z), string_agg(z::text, ',' ORDER BY z) FROM moment WHERE id < 4
a: SELECT id, lag(z) OVER (ORDER BY z), count(*) OVER (ORDER BY z RANGE BETWEEN interval '1 day' PRECEDING AND interval '1 day' FOLLOWING) FROM moment WHERE id < 4 ORDER BY id
a: INSERT INTO moment (id, z, t, d) VALUES (10, '2024-07-01 08:00', now()::timestamp - now()::timestamp + timestamp '2024-01-01', '2024-07-01') RETURNING z, t
a: INSERT INTO moment (id, z) SELECT 11, timestamp '2024-07-01 09:00' RETURNING z
a: UPDATE moment SET z = z + interval '1 month', t = z, d = z WHERE id IN (10, 11) RETURNING id, z, t, d
a: UPDATE moment SET z = date_trunc('day', z) WHERE id = 10
a: UPDATE moment SET t = z, d = z, z = z - interval '3 days' WHERE id = 11
a: SELECT id, z, t, d FROM moment WHERE id IN (10, 11) ORDER BY id
a: DELETE FROM moment WHERE z = '2024-08-01 00:00' RETURNING id
a: CALL put(20, '2024-03-09 12:00')
a: CALL put_local(21)
a: SELECT shown(20), shown(21)
a: SELECT id, z, t, d FROM moment WHERE id IN (20, 21) ORDER BY id
a: DO $$ BEGIN INSERT INTO moment (id, z) VALUES (22, '2024-01-15 09:00'); RAISE NOTICE 'at %', timestamptz '2024-01-15 09:00'; END $$
a: SELECT z FROM moment WHERE id = 22
a: INSERT INTO day (id) VALUES (1) RETURNING made, on_day, hour
a: INSERT INTO day (id, made) VALUES (2, '2024-01-15 03:30')
a: INSERT INTO day (id, made) VALUES (2, '2024-01-15 23:30') RETURNING on_day, hour
b: SET TimeZone = 'Asia/Kolkata'
b: SELECT * FROM day ORDER BY id
b: SELECT id, z, t::timestamptz, zs FROM moment ORDER BY id
b: UPDATE day SET made = made + interval '1 hour' WHERE id = 1 RETURNING made, on_day, hour
b: SELECT extract(timezone FROM z), extract(timezone_minute FROM z), to_char(z, 'TZ OF TZH TZM') FROM moment WHERE id IN (1, 6) ORDER BY id
b: SELECT date_trunc('hour', z), date_trunc('day', z) FROM moment WHERE id < 3 ORDER BY id
a: SELECT * FROM day ORDER BY id
b: PREPARE p AS SELECT id, z, z::date FROM moment WHERE z > $1 ORDER BY id
b: EXECUTE p('2024-03-10 12:00')
b: PREPARE q AS SELECT z::text, date_trunc('day', z) FROM moment WHERE id = 1
b: EXECUTE q
b: SET TimeZone = 'Europe/Berlin'
b: EXECUTE p('2024-03-10 12:00')
b: EXECUTE q
b: SELECT timestamptz '2024-03-31 02:30', timestamptz '2024-10-27 02:30', timestamptz '2024-10-27 02:30 CEST'
b: SELECT timestamptz '2024-03-30 12:00' + interval '1 day' - interval '24 hours'
b: SET TimeZone = 'Pacific/Apia'
b: SELECT timestamptz '2011-12-29 12:00' + interval '1 day', timestamptz '2011-12-30 12:00', timestamptz '2011-12-31 12:00' - interval '1 day'
b: SELECT id, z, z::date FROM moment ORDER BY id
b: SELECT g::text FROM generate_series(timestamptz '2011-12-28 00:00', timestamptz '2012-01-01 00:00', interval '1 day') g
b: SET TimeZone = 'EST5EDT,M3.2.0,M11.1.0'
b: SHOW TimeZone
b: SELECT id, z, to_char(z, 'TZ') FROM moment WHERE id < 3 ORDER BY id
b: SET TimeZone = 'foo-2'
b: SHOW TimeZone
b: SELECT z, to_char(z, 'TZ OF') FROM moment WHERE id = 1
b: SET TimeZone = '<+0330>-3:30'
b: SELECT z, to_char(z, 'TZ OF') FROM moment WHERE id = 1
b: SET TimeZone = 'NZST-12NZDT'
b: SELECT timestamptz '2024-07-01 12:00'
b: SET TIME ZONE 5.5
b: SHOW TIME ZONE
b: SELECT z, to_char(z, 'TZ OF') FROM moment WHERE id = 1
b: SET TIME ZONE -3
b: SHOW TimeZone
b: SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE
b: SHOW TimeZone
b: SET TIME ZONE INTERVAL '-08:30' HOUR TO MINUTE
b: SELECT z FROM moment WHERE id = 1
b: SET TimeZone = '+4'
b: SHOW TimeZone
b: SET TimeZone = 'GMT'
b: SELECT z, to_char(z, 'TZ') FROM moment WHERE id = 1
b: SET TIME ZONE 'Mars/Olympus'
b: SET TimeZone = 'PST'
b: SET TimeZone = ''
b: SET TimeZone = '1000'
b: SELECT set_config('TimeZone', 'Mars/Olympus', false)
b: SELECT set_config('TimeZone', 'Asia/Kathmandu', false)
b: SELECT z, current_setting('TimeZone') FROM moment WHERE id = 1
b: SELECT z FROM moment WHERE id = 6
b: SET SESSION TIME ZONE 'Asia/Tokyo'
b: BEGIN
b: SET LOCAL TimeZone = 'Australia/Lord_Howe'
b: SELECT z FROM moment WHERE id = 1
b: INSERT INTO moment (id, z) VALUES (30, '2024-04-07 01:45') RETURNING z
b: COMMIT
b: SELECT z FROM moment WHERE id = 30
b: BEGIN
b: SET TimeZone = 'America/St_Johns'
b: SAVEPOINT s
b: SET TimeZone = 'America/Caracas'
b: SELECT z FROM moment WHERE id = 1
b: ROLLBACK TO s
b: SELECT z FROM moment WHERE id = 1
b: UPDATE moment SET t = z, z = z + interval '1 day' WHERE id = 30
b: ROLLBACK
b: SELECT z, t FROM moment WHERE id = 30
b: SET LOCAL TIME ZONE 'Europe/Paris'
b: SHOW TimeZone
b: BEGIN
b: SELECT set_config('TimeZone', 'Europe/Paris', true)
b: SELECT z FROM moment WHERE id = 1
b: ROLLBACK
b: SELECT z FROM moment WHERE id = 1
b: SET TimeZone = 'America/New_York'
b: CREATE TABLE made (id integer PRIMARY KEY, z timestamptz DEFAULT '2024-07-01 00:00', t timestamp DEFAULT now(), CHECK (z > '2024-01-01 00:00'))
b: CREATE VIEW early AS SELECT id, z, z::date AS d FROM made WHERE z < '2024-07-01 12:00'
b: INSERT INTO made (id) VALUES (1)
b: SELECT id, z, t = now()::timestamp FROM made
b: SET TimeZone = 'Asia/Tokyo'
b: INSERT INTO made (id) VALUES (2)
b: INSERT INTO made (id, z) VALUES (3, '2024-01-01 10:00')
b: INSERT INTO made (id, z) VALUES (4, '2024-01-01 15:00'), (5, '2024-07-02 00:59'), (6, '2024-07-02 01:00')
b: SELECT id, z FROM made ORDER BY id
b: SELECT id, z, d FROM early ORDER BY id
b: ALTER TABLE made ADD COLUMN more timestamptz DEFAULT '2024-01-01 00:00'
b: SELECT id, more FROM made ORDER BY id
a: SELECT id, more FROM made ORDER BY id
b: ALTER TABLE made ALTER COLUMN more TYPE timestamp
a: SELECT id, more FROM made ORDER BY id
b: CREATE INDEX ON made ((z::date))
b: CREATE INDEX ON made (date_trunc('day', z))
b: CREATE INDEX ON made (extract(hour FROM z))
b: CREATE INDEX ON made ((z + interval '1 day'))
b: CREATE INDEX ON made ((z::text))
b: CREATE INDEX ON made ((z AT TIME ZONE 'Asia/Tokyo'))
b: ALTER TABLE made ADD COLUMN g date GENERATED ALWAYS AS (z::date) STORED
b: ALTER TABLE made ADD COLUMN g timestamp GENERATED ALWAYS AS (z AT TIME ZONE 'Asia/Tokyo') STORED
b: SELECT id, g FROM made ORDER BY id
b: RESET TimeZone
b: DISCARD ALL
a: SET TIME ZONE LOCAL
a: SET TIME ZONE DEFAULT
";

#[test]
fn a_session_is_in_its_zone() {
    for shards in [1, 3] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let what = format!("{shards} shards");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (SCHEMA, SCRIPT), &what);
    }
}

/// Numbers from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn time(&mut self) -> String {
        // Near changes of clocks more often than not.
        let near = [
            "2024-03-10",
            "2024-11-03",
            "2024-03-31",
            "2024-10-27",
            "2011-12-30",
            "1987-04-05",
            "2024-04-07",
        ];
        let day = match self.below(3) {
            0 => format!("{}-{:02}-{:02}", 1900 + self.below(180), 1 + self.below(12), 1 + self.below(28)),
            _ => self.pick(&near).to_owned(),
        };
        let (hour, minute, second) = (self.below(24), self.below(4) * 15, self.below(2) * 30);
        format!("{day} {hour:02}:{minute:02}:{second:02}")
    }

    fn interval(&mut self) -> String {
        let sign = self.pick(&["", "-"]);
        match self.below(4) {
            0 => format!("{sign}{} months", self.below(30)),
            1 => format!("{sign}{} days", self.below(400)),
            2 => format!("{sign}{} hours", self.below(100)),
            _ => format!("{} months {sign}{} days {} minutes", self.below(5), self.below(9), self.below(90)),
        }
    }

    fn statement(&mut self) -> String {
        const ZONES: [&str; 16] = [
            "UTC",
            "America/New_York",
            "Europe/Berlin",
            "Asia/Kolkata",
            "Pacific/Apia",
            "Australia/Lord_Howe",
            "America/St_Johns",
            "Asia/Kathmandu",
            "Africa/Casablanca",
            "Europe/Dublin",
            "America/Caracas",
            "Pacific/Chatham",
            "EST5EDT,M3.2.0,M11.1.0",
            "<+03>-3",
            "FOO8:30",
            "Antarctica/Troll",
        ];
        let fields = ["hour", "day", "week", "month", "year", "quarter", "minute"];
        let (time, other, interval) = (self.time(), self.time(), self.interval());
        let (field, zone) = (self.pick(&fields), self.pick(&ZONES));
        match self.below(14) {
            0..=2 => format!("SET TimeZone = '{zone}'"),
            3 => format!(
                "SELECT timestamptz '{time}', timestamptz '{time}+00', timestamptz '{time} {}'",
                "Europe/Paris"
            ),
            4 => format!(
                "SELECT timestamptz '{time}' + interval '{interval}', timestamptz '{time}+00' - interval '{interval}'"
            ),
            5 => format!(
                "SELECT date_trunc('{field}', timestamptz '{time}+00'), date_trunc('{field}', timestamptz '{time}', 'Europe/Rome')"
            ),
            6 => format!(
                "SELECT extract({field} FROM timestamptz '{time}+00'), extract(timezone FROM timestamptz '{time}')"
            ),
            7 => format!(
                "SELECT age(timestamptz '{time}', timestamptz '{other}'), timestamptz '{time}' - timestamptz '{other}'"
            ),
            8 => format!(
                "SELECT '{time}+00'::timestamptz::date, '{time}+00'::timestamptz::timestamp, '{time}'::timestamp::timestamptz"
            ),
            9 => format!(
                "SELECT to_char(timestamptz '{time}+00', 'YYYY-MM-DD HH24:MI:SS TZ OF'), to_jsonb(timestamptz '{time}+00')"
            ),
            10 => format!(
                "SELECT count(*), min(g), max(g) FROM generate_series(timestamptz '{time}', timestamptz '{time}' + interval '40 days', interval '1 day') g"
            ),
            11 => format!(
                "UPDATE moment SET z = '{time}', t = '{time}+00'::timestamptz WHERE id = {}",
                self.below(4)
            ),
            12 => format!(
                "UPDATE moment SET z = z + interval '{interval}', d = z, n = n + 1 WHERE id = {}",
                self.below(4)
            ),
            _ => "SELECT id, z, t, d, z::date, z = t, z < d FROM moment ORDER BY id".to_owned(),
        }
    }
}

#[test]
fn random_times_zones_and_operations_are_as_on_postgresql() {
    let rows = "INSERT INTO moment (id, z, t) SELECT a, '2024-03-10 06:30+00', '2024-03-10 06:30' FROM generate_series(0, 3) a;";
    for (shards, seed) in [(1, 1), (3, 2)] {
        let mut chance = Chance(seed);
        let script: String = (0..1_500).map(|_| format!("a: {}\n", chance.statement())).collect();
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let schema = format!("SET TimeZone = 'UTC'; {SCHEMA} {rows}");
        let what = format!("{shards} shards, seed {seed}");
        let script = format!("a: SET TimeZone = 'UTC'\n{script}");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (&schema, &script), &what);
    }
}

/// What COPY takes and gives, in text and CSV.
#[test]
fn a_copy_is_in_the_zone_of_its_session() {
    for shards in [1, 3] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let [found, expected] = [weir.url(), postgres.connection_string()].map(|url| {
            let mut driver = Driver::connect(&url, NoTls).unwrap();
            driver.batch_execute(SCHEMA).unwrap();
            driver.batch_execute("SET TimeZone = 'America/New_York'").unwrap();
            let mut into = driver.copy_in("COPY moment (id, z, zs) FROM STDIN").unwrap();
            into.write_all(
                b"1\t2024-03-10 02:30\t{2024-11-03 01:30,2024-07-01 00:00+00}\n2\t2024-07-01 12:00\t\\N\n",
            )
            .unwrap();
            into.finish().unwrap();
            let mut into = driver.copy_in("COPY day (id, made) FROM STDIN CSV").unwrap();
            into.write_all(b"1,2024-07-01 22:00\n2,2024-01-01 23:30:00.5\n").unwrap();
            into.finish().unwrap();
            let mut heard = String::new();
            for zone in ["America/New_York", "Asia/Kolkata"] {
                driver.batch_execute(&format!("SET TimeZone = '{zone}'")).unwrap();
                for what in [
                    "(SELECT * FROM moment ORDER BY id) TO STDOUT",
                    "(SELECT * FROM day ORDER BY id) TO STDOUT CSV",
                ] {
                    driver.copy_out(&format!("COPY {what}")).unwrap().read_to_string(&mut heard).unwrap();
                }
            }
            heard
        });
        assert_eq!(found, expected, "{shards} shards, PostgreSQL on the right");
    }
}

/// What is worked out again from the log is worked out in the zones of the sessions that wrote it.
#[test]
fn a_log_gives_what_sessions_have_written_in_their_zones() {
    for shards in [1, 3] {
        let mut weir = Alone::start(shards);
        let mut driver = weir.driver();
        driver.batch_execute(SCHEMA).unwrap();
        for (id, zone) in
            ["America/New_York", "Asia/Kolkata", "UTC", "foo-2:30", "Pacific/Apia"].iter().enumerate()
        {
            driver.batch_execute(&format!("SET TimeZone = '{zone}'")).unwrap();
            let one = |sql: &str| sql.replace("$1", &id.to_string());
            for sql in [
                "INSERT INTO moment (id, z) VALUES ($1, '2024-03-09 12:00')",
                "UPDATE moment SET z = date_trunc('day', z) + interval '1 month 1 day', t = z, d = z, n = n + 1 WHERE id = $1",
                "UPDATE moment SET zs = ARRAY[z, '2024-07-01 00:00'], t = t + interval '1 hour' WHERE id = $1",
                "INSERT INTO day (id) VALUES ($1)",
                "UPDATE day SET made = made + interval '2 days' WHERE id = $1",
                "BEGIN; SET LOCAL TimeZone = 'Europe/Berlin'; UPDATE moment SET t = z, z = z + interval '1 month' WHERE id = $1; COMMIT",
            ] {
                driver.batch_execute(&one(sql)).unwrap_or_else(|error| panic!("{zone}: {sql}: {error}"));
            }
        }
        driver.batch_execute("SET TimeZone = 'Asia/Tokyo'; CREATE TABLE made (id integer PRIMARY KEY, z timestamptz DEFAULT '2024-01-01 00:00')").unwrap();
        let all = "SELECT * FROM moment ORDER BY id; SELECT * FROM day ORDER BY id; INSERT INTO made VALUES (1); SELECT z FROM made; DELETE FROM made";
        let before = answers::answer(&mut driver, all);
        drop(driver);
        weir.kill_and_start_again();
        let mut driver = weir.driver();
        driver.batch_execute("SET TimeZone = 'Asia/Tokyo'").unwrap();
        assert_eq!(answers::answer(&mut driver, all), before, "{shards} shards");
    }
}
