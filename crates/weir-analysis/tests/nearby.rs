//! A statement is judged among the ad-hoc statements near it alone, and the answer is that among all of them.

use crate::support;

use crate::small_cases as small;

use weir_analysis::PlantedFlaws;
use weir_analysis::open_world::OpenWorld;
use weir_sql::Application;

const EXAMPLES: [&str; 8] =
    ["auction", "escrow-tickets", "payroll", "rubis", "smallbank", "social", "tpcc", "tpcw"];

/// Judges every ad-hoc statement of the application, and each of its procedures, both ways; gives how many were judged.
fn check(name: &str, app: Application) -> usize {
    OpenWorld::compare(app).unwrap_or_else(|difference| panic!("{name}: {difference}"))
}

/// The same schema without procedures.
fn bare(app: &Application) -> Application {
    let mut app = app.clone();
    app.procedures.clear();
    app
}

#[test]
fn of_the_examples() {
    for name in EXAMPLES {
        let app = support::example(name, |_, text| text);
        assert!(check(name, bare(&app)) > 0);
        check(name, app);
    }
}

#[test]
fn of_small_applications() {
    let mut judged = 0;
    for small in small::read_all(&support::root().join("testdata/small")) {
        let app = support::read_to_analyze(&small.sql);
        judged += check(&small.name, bare(&app)) + check(&small.name, app);
    }
    assert!(judged > 1_000, "{judged}");
}

/// Actions, triggers and generated values reach tables that a statement does not name.
const REACHES: &str = "
         CREATE TABLE a (id bigint PRIMARY KEY, u int UNIQUE, n int NOT NULL);
         CREATE TABLE b (id bigint PRIMARY KEY, a int REFERENCES a (u) ON UPDATE CASCADE ON DELETE CASCADE, n int);
         CREATE TABLE c (id bigint PRIMARY KEY, b bigint REFERENCES b ON DELETE SET NULL, n int CHECK (n >= 0));
         CREATE TABLE d (id bigint PRIMARY KEY, c bigint REFERENCES c, n int);
         CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a bigint, n int);
         CREATE TABLE total (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0));
         CREATE TABLE far (id int PRIMARY KEY, n int);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             UPDATE total SET n = n - 1 WHERE id = 1;
             INSERT INTO log (a, n) VALUES (OLD.id, 1);
             RETURN OLD;
         END $$;
         CREATE TRIGGER noted BEFORE DELETE ON c FOR EACH ROW EXECUTE FUNCTION note();
         CREATE ASSERTION kept CHECK (NOT EXISTS (SELECT 1 FROM d WHERE n > (SELECT sum(n) FROM total)));
         CREATE ASSERTION counted CHECK ((SELECT count(*) FROM log) <= 1000);";

#[test]
fn of_what_reaches_other_tables() {
    let app = support::read_to_analyze(REACHES);
    assert!(check("reaches", bare(&app)) > 10);
}

/// Negative control: the comparison finds a judgement that looks at too few statements. By the number of applications that show it.
#[test]
fn a_judgement_that_looks_at_too_little_is_found() {
    let small = small::read_all(&support::root().join("testdata/small"));
    let mut apps: Vec<Application> = small.iter().map(|small| support::read_to_analyze(&small.sql)).collect();
    apps.extend(EXAMPLES.map(|name| support::example(name, |_, text| text)));
    apps.push(support::read_to_analyze(REACHES));
    let found = |flaws: PlantedFlaws| {
        let shows = |app: &&Application| OpenWorld::compare_flawed(bare(app), flaws).is_err();
        apps.iter().filter(shows).count()
    };
    let forgets_asked = PlantedFlaws { forgets_asked: true, ..PlantedFlaws::default() };
    let forgets_both = PlantedFlaws { forgets_neighbours: true, ..forgets_asked };
    let (asked, both) = (found(forgets_asked), found(forgets_both));
    assert!(asked > 0 && both > asked, "{asked} {both} of {}", apps.len());
}
