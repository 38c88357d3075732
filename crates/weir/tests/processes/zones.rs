//! Sessions with another TimeZone than UTC behave as on PostgreSQL, on one shard and on three.

use crate::answers;

use std::io::{Read, Write};

use crate::alone::Alone;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;

/// A file of `testdata/sql/zones`: `schema.sql`, and `sessions.txt`, lines of sessions as [`answers::run`] has them.
fn file(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sql/zones");
    std::fs::read_to_string(format!("{path}/{name}")).unwrap()
}

/// Both answer each line alike.
fn check_alike(shards: u16, schema: &str, script: &str) {
    let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
    let [found, expected] = [weir.url(), postgres.connection_string()].map(|url| {
        Driver::connect(&url, NoTls).unwrap().batch_execute(schema).unwrap();
        answers::run(&url, script)
    });
    let mut differences = Vec::new();
    for (found, expected) in found.lines().zip(expected.lines()) {
        if found != expected {
            differences.push(format!("Weir:       {found}\nPostgreSQL: {expected}\n"));
        }
    }
    assert!(differences.is_empty(), "{shards} shards: {} lines\n{}", differences.len(), differences.concat());
}

#[test]
fn a_session_is_in_its_zone() {
    let (schema, script) = (file("schema.sql"), file("sessions.txt"));
    [1, 3].into_iter().for_each(|shards| check_alike(shards, &schema, &script));
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
        const ZONES: [&str; 15] = [
            "UTC",
            "America/New_York",
            "Europe/Berlin",
            "Asia/Kolkata",
            "Pacific/Apia",
            "Australia/Lord_Howe",
            "America/St_Johns",
            "Asia/Kathmandu",
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
        let schema = format!("{} {rows}", file("schema.sql"));
        check_alike(
            shards,
            &schema,
            &format!(
                "a: SET TimeZone = 'UTC'
{script}"
            ),
        );
    }
}

/// Input and output of COPY, in text and CSV.
#[test]
fn a_copy_is_in_the_zone_of_its_session() {
    for shards in [1, 3] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let [found, expected] = [weir.url(), postgres.connection_string()].map(|url| {
            let mut driver = Driver::connect(&url, NoTls).unwrap();
            driver.batch_execute(&file("schema.sql")).unwrap();
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

/// Replay of the log evaluates times in the zones of the sessions that wrote them.
#[test]
fn a_log_gives_what_sessions_have_written_in_their_zones() {
    for shards in [1, 3] {
        let mut weir = Alone::start(shards);
        let mut driver = weir.driver();
        driver.batch_execute(&file("schema.sql")).unwrap();
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
                "UPDATE day SET made = '2024-07-03 12:00' WHERE id = $1",
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
