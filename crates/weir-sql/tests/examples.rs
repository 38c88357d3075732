//! The examples load as they are: schema, procedures and invariants.

use std::path::Path;

use weir_sql::{Application, Sources, load};

fn example(name: &str) -> Application {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let mut sources = Sources::default();
    for file in ["schema.sql", "procedures.sql", "invariants.sql"] {
        let text = std::fs::read_to_string(folder.join(file));
        sources.add(file, text.unwrap_or_else(|error| panic!("{name}/{file}: {error}")));
    }
    load(sources).unwrap_or_else(|(sources, errors)| {
        let show = |error: &weir_sql::Diagnostic| format!("{}: {}", sources.place(error.span), error.message);
        panic!("{}", errors.iter().map(show).collect::<Vec<_>>().join("\n"))
    })
}

#[test]
fn tpcc() {
    let application = example("tpcc");
    let names: Vec<&str> = application.procedures.iter().map(|procedure| procedure.name.as_str()).collect();
    assert_eq!(names, ["new_order", "payment", "order_status", "delivery", "stock_level"]);
    assert_eq!(application.catalog.tables.len(), 9);
    assert_eq!(application.assertions.len(), 13);
}

#[test]
fn payroll() {
    let application = example("payroll");
    assert!(!application.procedures.is_empty());
}
