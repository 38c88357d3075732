//! Tests wait for something, never for a time: a pause is too short on a machine under load, and too long on every other.

/// Files whose tests sleep, each with the reason.
const ALLOWED: [(&str, &str); 6] = [
    ("crates/weir/tests/eventually/mod.rs", "the pause between two questions to another process"),
    ("crates/weir/tests/processes/calls_over_network.rs", "kills are spread over the time of a run"),
    ("crates/weir/tests/processes/kills.rs", "kills are spread over the time of a run, whose clients pause"),
    ("crates/weir/tests/processes/kills_through_postgres.rs", "kills are spread over the time of a run"),
    ("crates/weir/tests/processes/old_data.rs", "other nodes hear of a write within a stated time"),
    ("xtask/src/sleeps.rs", "examples"),
];

/// Complaints about a file of Rust.
pub fn complaints(file: &str, text: &str) -> Vec<String> {
    let sleeping = lines(file, text);
    match ALLOWED.iter().find(|(allowed, _)| *allowed == file) {
        Some(_) if sleeping.is_empty() => {
            vec![format!("{file}: its tests sleep no longer; take it from the list of those that may")]
        }
        Some(_) => Vec::new(),
        None => sleeping
            .into_iter()
            .map(|line| format!("{file}:{line}: a test sleeps; ask `eventually` for what it waits for"))
            .collect(),
    }
}

/// Numbers of the lines of tests that sleep. SQL may: a statement that lasts is a subject of tests.
fn lines(file: &str, text: &str) -> Vec<usize> {
    let is_of_tests = file.contains("/tests/") || file.ends_with("tests.rs");
    let first = match is_of_tests {
        true => Some(0),
        false => text.lines().position(|line| line.trim_start().starts_with("#[cfg(test)]")),
    };
    let sleeps = |line: &str| line.match_indices("sleep(").any(|(at, _)| !line[..at].ends_with(['_', '.']));
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let numbered = text.lines().enumerate().skip(first.unwrap_or(usize::MAX));
    numbered.filter(|(_, line)| sleeps(line) && !is_comment(line)).map(|(at, _)| at + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_tests_are_found() {
        let sleep = "fn f() {\n    std::thread::sleep(PAUSE);\n}\n";
        let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{sleep}}}\n");
        for (file, text, lines) in [
            ("crates/a/tests/b.rs", sleep, &[2][..]),
            ("crates/a/src/b.rs", sleep, &[]),
            ("crates/a/src/b.rs", &tested, &[5]),
            ("crates/a/src/b/tests.rs", sleep, &[2]),
            ("crates/a/tests/b.rs", "f(\"SELECT pg_sleep(1)\");\n// sleep(1)\n", &[]),
        ] {
            assert_eq!(super::lines(file, text), lines, "{file}: {text}");
        }
        assert_eq!(complaints("crates/a/tests/b.rs", sleep).len(), 1);
        let (allowed, _) = ALLOWED[0];
        assert_eq!((complaints(allowed, sleep).len(), complaints(allowed, "").len()), (0, 1));
    }
}
