//! The examples of the repository, for tests within the crate.

use std::path::Path;

use weir_sql::{Application, Sources};

#[track_caller]
pub fn load(name: &str) -> Application {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let mut sources = Sources::default();
    for file in ["schema.sql", "procedures.sql", "invariants.sql"] {
        let text = std::fs::read_to_string(folder.join(file)).expect("the example's file");
        sources.add(file, text);
    }
    match weir_sql::load(sources) {
        Ok(app) => app,
        Err((_, errors)) => panic!("{name}: {errors:?}"),
    }
}
