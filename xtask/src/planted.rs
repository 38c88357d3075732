//! Checks that no product names the bugs that tests plant (docs/decisions/0014-faults-are-a-type.md).
//!
//! Reads the source text of crates without unit tests. Who does not name the set of planted bugs can only build a shard without.

use std::path::Path;

use crate::layers::{code_of, is_test};

/// Where planted bugs are declared.
const DECLARED: [&str; 7] = [
    "crates/weir-txn/src/faults.rs",
    "crates/weir-kv/src/faults.rs",
    "crates/weir-baselines/src/faults.rs",
    "crates/weir-baselines/src/eris/faults.rs",
    "crates/weir-baselines/src/eris/tpcc/faults.rs",
    "crates/weir-ordered/src/faults.rs",
    "crates/weir-conveyor/src/faults.rs",
];
const FAULTS: &str = "faults::";
/// Sets of planted bugs: of shards and replicas, of clients, of coordinators over relations, of failure coordinators, of agents, of plans.
const PLANTED: [&str; 6] =
    ["PlantedBugs", "ClientBugs", "RelationBugs", "CoordinatorBugs", "AgentBugs", "PlanBugs"];

/// Sources of products that name planted bugs.
pub fn complaints(root: &Path, files: &[String]) -> Vec<String> {
    let is_source =
        |file: &&String| file.starts_with("crates/") && file.contains("/src/") && file.ends_with(".rs");
    let sources =
        files.iter().filter(is_source).filter(|file| !DECLARED.contains(&file.as_str()) && !is_test(file));
    let complaints = |file: &String| {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        lines_that_plant(&text).into_iter().map(|line| complaint(file, line)).collect::<Vec<_>>()
    };
    sources.flat_map(complaints).collect()
}

fn complaint(file: &str, line: usize) -> String {
    format!("{file}:{line}: names planted bugs of `{FAULTS}`, which only tests do: a product has `NoFaults`")
}

/// Lines at which a path or an import names planted bugs of a module `faults`.
fn lines_that_plant(text: &str) -> Vec<usize> {
    let code = code_of(text);
    let names = |(at, _): &(usize, &str)| {
        let rest = &code[at + FAULTS.len()..];
        let group = rest.strip_prefix('{').map(|group| group.split('}').next().unwrap_or_default());
        let mut names = group.unwrap_or(rest).split(|c: char| !c.is_alphanumeric() && c != '_');
        match group {
            Some(_) => names.any(|name| PLANTED.contains(&name) || name == "self"),
            None => names.next().is_some_and(|name| PLANTED.contains(&name)) || rest.starts_with('*'),
        }
    };
    let places = code.match_indices(FAULTS).filter(names);
    places.map(|(at, _)| code[..at].matches('\n').count() + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_plants_a_bug_is_found() {
        for text in [
            "use weir_txn::faults::PlantedBugs;\n",
            "use crate::faults::{Faults, PlantedBugs};\n",
            "use weir_kv::faults::ClientBugs;\n",
            "use weir_txn::faults::*;\n",
            "use weir_txn::faults::{self, Faults};\n",
            "fn f() { g(weir_txn::faults::PlantedBugs::default()) }\n",
        ] {
            assert_eq!(lines_that_plant(&format!("//! A file.\n{text}")), [2], "{text}");
        }
    }

    #[test]
    fn whoever_has_no_faults_is_not() {
        let text = "use weir_txn::faults::{Faults, NoFaults};\n// faults::PlantedBugs\n\n#[cfg(test)]\nmod tests {\n    \
            use weir_txn::faults::PlantedBugs;\n}\n";
        assert!(lines_that_plant(text).is_empty());
    }
}
