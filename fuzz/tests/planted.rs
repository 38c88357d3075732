//! The search finds a bug that is there on purpose, makes its input small, and the input shows it again.

use std::process::Command;

#[track_caller]
fn check(plant: &str, bytes_max: u64) {
    let folder = std::env::temp_dir().join(format!("weir-fuzz-planted-{}-{plant}", std::process::id()));
    let program = env!("CARGO_BIN_EXE_weir-fuzz");
    let findings = folder.display().to_string();
    let search = Command::new(program)
        .args(["--seconds", "600", "--seed", "7", "--plant", plant, "--findings", &findings])
        .output()
        .expect("it starts");
    assert_eq!(search.status.code(), Some(1), "{}", String::from_utf8_lossy(&search.stderr));
    let mut found = 0;
    for case in std::fs::read_dir(&folder).expect("the findings") {
        let case = case.expect("a finding").path();
        let bytes: u64 = std::fs::read_dir(&case)
            .expect("its files")
            .map(|file| file.expect("a file").metadata().expect("its size").len())
            .sum();
        assert!(bytes < bytes_max, "{} is still {bytes} bytes long", case.display());
        let again = |plant: &[&str]| {
            let replay = Command::new(program).arg("--replay").arg(&case).args(plant).output();
            replay.expect("it starts").status.success()
        };
        assert!(!again(&["--plant", plant]) && again(&[]), "{}", case.display());
        found += 1;
    }
    assert!(found > 0);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_panic_is_found() {
    check("panic", 2_000);
}

/// Each reader gets what it understands, damaged as it is.
#[test]
fn a_panic_of_each_reader_is_found() {
    for reader in ["sql", "plpgsql", "log", "wire"] {
        // What a reader must understand cannot be cut anywhere, so that it may stay as long as it came.
        check(reader, u64::MAX);
    }
}

#[test]
fn an_overflow_of_the_stack_is_found() {
    check("overflow", 2_000);
}
