//! What the engine is said to do with a transaction is what it does: every example, and applications as people write them, judged and then
//! run hot ([`weir_bench::hot`]).

use std::path::{Path, PathBuf};

use weir_analysis::Analysis;
use weir_bench::hot::Hot;
use weir_sql::{Application, Reading, Sources};
use weir_txn::exec::admission;

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

#[test]
fn examples_do_what_is_said_of_them() {
    check_folder("examples", &Hot { calls: 1_000, ..Hot::default() });
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

/// Both read before either writes, unless one shard runs each to completion.
#[test]
fn order_is_kept_or_refused() {
    for (place, runs) in [("id", false), ("ward", true)] {
        let mut sources = Sources::default();
        sources.add("schema.sql", WARDS.replace("PLACE", place));
        let wards = application(sources);
        let said = admission::runs(&wards.0, &wards.1.plan);
        assert!(wards.1.plan.transactions.iter().all(|plan| plan.mechanism.is_ordered_family()));
        assert!(said.iter().all(|said| said.on_one_shard), "{said:?}");
        assert_eq!(said[0].on_several, runs, "by {place}: {said:?}");
        for (shards, seed) in [(1, 1), (4, 1), (4, 2), (4, 3)] {
            check(&Hot { shards, seed, ..Hot::default() }, place, &wards, Some(WARDS_WORKLOAD));
        }
    }
}

/// Said to run, and refused on several shards by the rows that a call meets: admission does not see where they live.
const KNOWN: [&str; 2] = [
    "is said to run: 0A000 inserting rows of several shards into",
    "is said to run: 0A000 removing a parent of",
];

/// Those of `testdata/small`, whose verdicts are compared with ones derived by hand in `weir-analysis/tests/small.rs`.
#[test]
fn small_applications_do_what_is_said_of_them() {
    let hot = Hot { clients: 16, calls: 200, rows_max: 50, commits: false, ..Hot::default() };
    let (mut run, mut all) = (0, Vec::new());
    for file in std::fs::read_dir(root().join("testdata/small")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for small in text.split("-- app: ").skip(1) {
            let (name, sql) = small.split_once('\n').unwrap();
            let sources = || {
                let mut sources = Sources::default();
                sources.add("small.sql", sql);
                sources
            };
            // Some of them can be analysed alone.
            if weir_sql::load(sources()).is_ok() {
                let (application, analysis) = application(sources());
                let wrong = hot.disagreements(&application, &analysis, None);
                all.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
                run += 1;
            }
        }
    }
    all.retain(|wrong| !KNOWN.iter().any(|known| wrong.contains(known)));
    assert!(all.is_empty(), "{}", all.join("\n"));
    assert!(run >= 140, "{run} applications");
}
