//! The engine treats transactions as the analysis says: every example, and applications as people write them, are analysed and then run
//! hot ([`weir_bench::hot`]).

use crate::small;

use std::path::{Path, PathBuf};

use weir_analysis::Analysis;
use weir_bench::hot::Hot;
use weir_sql::{Application, Reading, Sources};
use weir_txn::exec::admission;
use weir_txn::exec::independent::Agreement;
use weir_txn::exec::program::Program;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(folder: &Path) -> (Application, Analysis) {
    let mut sources = Sources::default();
    for file in ["schema.sql", "procedures.sql", "transactions.sql", "invariants.sql"] {
        if let Ok(text) = std::fs::read_to_string(folder.join(file)) {
            sources.add(file, text);
        }
    }
    application(sources)
}

fn application(sources: Sources) -> (Application, Analysis) {
    let application = weir_sql::load_with(sources, Reading::Tolerant).map_err(|(_, wrong)| wrong).unwrap();
    let analysis = weir_analysis::analyze(&application);
    (application, analysis)
}

fn check(hot: &Hot, name: &str, (application, analysis): &(Application, Analysis), workload: Option<&str>) {
    let workload = workload.map(|text| ("workload.toml", text));
    let wrong = hot.disagreements(application, analysis, workload);
    assert!(wrong.is_empty(), "{name} on {} shards:\n{}", hot.shards, wrong.join("\n"));
}

fn check_folder(folder: &str, hot: &Hot) {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.join("schema.sql").exists());
    all.sort();
    assert!(!all.is_empty(), "{folder} is empty");
    for path in all {
        let workload = std::fs::read_to_string(path.join("workload.toml")).ok();
        check(hot, &path.display().to_string(), &read(&path), workload.as_deref());
    }
}

/// Calls of each example: `WEIR_CALLS`.
fn calls_of_examples() -> u64 {
    std::env::var("WEIR_CALLS").map_or(1_000, |calls| calls.parse().expect("WEIR_CALLS is a number"))
}

/// No procedure is refused, each of a mix commits, and every invariant holds afterwards.
#[test]
fn examples_run_on_any_number_of_shards() {
    for shards in [1, 2, 4, 8] {
        check_folder("examples", &Hot { shards, calls: calls_of_examples(), ..Hot::default() });
    }
    let refused = refused_examples();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Procedures of the examples that are refused, on one shard or on several.
fn refused_examples() -> Vec<String> {
    let mut refused = Vec::new();
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if !path.join("schema.sql").exists() {
            continue;
        }
        let (application, analysis) = read(&path);
        for (procedure, said) in
            application.procedures.iter().zip(admission::runs(&application, &analysis.plan))
        {
            let why = said.refused.into_iter().chain(said.when_met).map(|refused| refused.reason).next();
            refused.extend(why.map(|why| format!("{}: {}: {why}", path.display(), procedure.name)));
        }
    }
    refused
}

#[test]
fn applications_do_what_is_said_of_them() {
    for shards in [1, 4] {
        check_folder(
            "testdata/applications",
            &Hot { shards, calls: 1_000, commits: false, ..Hot::default() },
        );
    }
}

const WARDS: &str = "
CREATE TABLE ward (id int PRIMARY KEY);
CREATE TABLE doctor (id int, ward int NOT NULL, on_call boolean NOT NULL, PRIMARY KEY (ward, id));
COMMENT ON TABLE doctor IS 'weir: partition by (PLACE)';
CREATE ASSERTION someone CHECK (NOT EXISTS (SELECT 1 FROM ward w
  WHERE NOT EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.on_call)));
CREATE PROCEDURE go_off(p_w int, p_d int, p_other int) LANGUAGE plpgsql AS $$
DECLARE other boolean;
BEGIN
  SELECT on_call INTO other FROM doctor WHERE ward = p_w AND id = p_other;
  IF NOT other THEN RAISE EXCEPTION 'nobody else'; END IF;
  UPDATE doctor SET on_call = false WHERE ward = p_w AND id = p_d;
END $$;
CREATE PROCEDURE go_on(p_w int, p_d int) LANGUAGE plpgsql AS $$
BEGIN UPDATE doctor SET on_call = true WHERE ward = p_w AND id = p_d; END $$;
";

const WARDS_WORKLOAD: &str = "
[load.ward]
for = [\"n in 1..40\"]
id = \"n\"
[load.doctor]
for = [\"w in 1..40\", \"d in 1..2\"]
id = \"d\"
ward = \"w\"
on_call = \"true\"
[mix]
go_off = 9
go_on = 1
[parameters.go_off]
p_w = \"uniform(1, 40)\"
p_d = \"uniform(1, 2)\"
p_other = \"3 - p_d\"
[parameters.go_on]
p_w = \"uniform(1, 40)\"
p_d = \"uniform(1, 2)\"
";

/// Both read before either writes, unless one shard runs each to completion, or both have their places in the order of a sequencer: there
/// the shard of the other doctor votes on what it alone has seen.
#[test]
fn order_is_kept_in_one_step_or_by_votes() {
    for place in ["id", "ward"] {
        let mut sources = Sources::default();
        sources.add("schema.sql", WARDS.replace("PLACE", place));
        let wards = application(sources);
        let said = admission::runs(&wards.0, &wards.1.plan);
        assert!(wards.1.plan.transactions.iter().all(|plan| plan.mechanism.is_ordered_family()));
        assert!(said.iter().all(|said| said.on_one_shard), "{said:?}");
        assert!(said.iter().all(|said| said.on_several), "by {place}: {said:?}");
        assert!(said.iter().all(|said| said.interactive.is_none()), "by {place}: {said:?}");
        let program = Program::compile(&wards.0, &wards.1.plan, 4).unwrap();
        assert_eq!(program.procedures[0].independent, Ok(Agreement::Votes));
        for (shards, seed) in [(1, 1), (4, 1), (4, 2), (4, 3)] {
            check(&Hot { shards, seed, ..Hot::default() }, place, &wards, Some(WARDS_WORKLOAD));
        }
    }
}

const PARENTS: &str = "
CREATE TABLE dept (id int PRIMARY KEY);
CREATE TABLE emp (id int PRIMARY KEY, dept int REFERENCES dept (id) ON DELETE ACTION);
COMMENT ON TABLE dept IS 'weir: partition by (id)';
COMMENT ON TABLE emp IS 'weir: partition by (id)';
CREATE PROCEDURE close(d int) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM dept WHERE id = d; MORE END $$;
CREATE PROCEDURE found(d int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO dept VALUES (d); END $$;
CREATE PROCEDURE hire(e int, d int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO emp VALUES (e, d); END $$;
CREATE PROCEDURE transfer(e int, d int) LANGUAGE plpgsql AS $$ BEGIN UPDATE emp SET dept = d WHERE id = e; END $$;
";

const PARENTS_WORKLOAD: &str = "
[mix]
close = 1
found = 2
hire = 3
transfer = 2
[parameters.close]
d = \"uniform(1, 20)\"
[parameters.found]
d = \"uniform(1, 20)\"
[parameters.hire]
e = \"uniform(1, 1000)\"
d = \"uniform(1, 20)\"
[parameters.transfer]
e = \"uniform(1, 1000)\"
d = \"uniform(1, 20)\"
";

fn parents(action: &str, more: &str) -> (Application, Analysis) {
    let mut sources = Sources::default();
    sources.add("schema.sql", PARENTS.replace("ACTION", action).replace("MORE", more));
    application(sources)
}

/// Children on other shards change when their parent's call has run: a procedure whose other statements are about them runs statement by
/// statement.
#[test]
fn a_procedure_that_meets_children_of_other_shards_runs_by_statements() {
    let parents = parents("CASCADE", "UPDATE emp SET dept = NULL WHERE id = 1;");
    let said = &admission::runs(&parents.0, &parents.1.plan)[0];
    assert!(said.on_one_shard && said.on_several && !said.is_refused_by_rows(), "{said:?}");
    for (shards, seed) in [(1, 1), (4, 1), (4, 2)] {
        check(&Hot { shards, seed, ..Hot::default() }, "parents", &parents, Some(PARENTS_WORKLOAD));
    }
}

#[test]
fn parents_go_whose_children_live_elsewhere() {
    for action in ["NO ACTION", "RESTRICT", "CASCADE", "SET NULL"] {
        let parents = parents(action, "");
        let said = admission::runs(&parents.0, &parents.1.plan);
        assert!(said.iter().all(|said| said.on_several), "{action}: {said:?}");
        for (shards, seed) in [(1, 1), (4, 1), (4, 2)] {
            check(&Hot { shards, seed, ..Hot::default() }, action, &parents, Some(PARENTS_WORKLOAD));
        }
    }
}

const PAIRS: &str = "
CREATE TABLE entry (account int, id int, amount int NOT NULL, PRIMARY KEY (account, id));
COMMENT ON TABLE entry IS 'weir: partition by (account)';


CREATE ASSERTION balanced CHECK ((SELECT coalesce(sum(amount), 0) FROM entry) = 0);
CREATE PROCEDURE pay(a int, b int, n int, q int) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO entry VALUES (a, n, q), (b, n, -q); END $$;
";

const PAIRS_WORKLOAD: &str = "
[mix]
pay = 1
[parameters.pay]
a = \"uniform(1, 40)\"
b = \"uniform(41, 80)\"
n = \"uniform(1, 1000000000)\"
q = \"uniform(1, 9)\"
";

/// Each shard inserts the rows that live there, and all or none of them are there.
#[test]
fn one_insert_brings_rows_of_several_shards() {
    let mut sources = Sources::default();
    sources.add("schema.sql", PAIRS);
    let pairs = application(sources);
    let said = &admission::runs(&pairs.0, &pairs.1.plan)[0];
    assert!(said.on_one_shard, "{said:?}");
    assert!(said.on_several, "{said:?}");
    for (shards, seed) in [(1, 1), (4, 1), (4, 2)] {
        check(&Hot { shards, seed, ..Hot::default() }, "pairs", &pairs, Some(PAIRS_WORKLOAD));
    }
}

/// Those of `testdata/small`, whose verdicts are compared with ones derived by hand in `weir-analysis/tests/small.rs`.
#[test]
fn small_applications_do_what_is_said_of_them() {
    let hot = Hot { clients: 16, calls: 200, rows_max: 50, commits: false, ..Hot::default() };
    let (mut run, mut all, mut refused) = (0, Vec::new(), Vec::new());
    for small in small::read_all(&root().join("testdata/small")) {
        let sources = || {
            let mut sources = Sources::default();
            sources.add("small.sql", small.sql.as_str());
            sources
        };
        // Some of them can be analysed alone.
        if weir_sql::load(sources()).is_ok() {
            let (application, analysis) = application(sources());
            for (procedure, said) in
                application.procedures.iter().zip(admission::runs(&application, &analysis.plan))
            {
                let why = said.refused.into_iter().chain(said.when_met).map(|refused| refused.reason).next();
                refused.extend(why.map(|why| format!("{}: {}: {why}", small.name, procedure.name)));
            }
            let wrong = hot.disagreements(&application, &analysis, None);
            all.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", small.name)));
            run += 1;
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(run >= 180, "{run} applications");
    println!("{run} applications; refused on several shards:\n{}", refused.join("\n"));
}
