//! The whole experiment at a tiny scale, over real PostgreSQL and MariaDB servers. Weir's own targets are tested in the crate `weir`.

mod workbench;

use std::path::Path;

use weir_cat_bench::experiments::figure;
use weir_cat_bench::laboratory::{Effort, Laboratory};
use weir_cat_bench::servers::Servers;
use weir_cat_bench::table;
use weir_cat_bench::target::{Level, Target};

const OTHERS: [Target; 3] = [
    Target::PostgresInteractive(Level::RepeatableRead),
    Target::PostgresCall(Level::Serializable),
    Target::MariaDbInteractive(Level::RepeatableRead),
];

#[test]
fn figures_are_measured_over_real_servers() {
    let mut said = Vec::new();
    let mut listener = |what: &str| said.push(what.to_owned());
    let servers = Servers::new(Path::new("weir"), 1);
    let mut laboratory = Laboratory::new(Effort::tiny(), &OTHERS, servers, 1, &mut listener);
    for id in ["cat-fig3", "cat-fig5", "cat-fig6", "cat-fig7", "cat-fig8", "cat-wall"] {
        let figure = figure(&mut laboratory, id, 1).expect("it is measured");
        assert!(!figure.claims.is_empty() && !figure.panels.is_empty(), "{id}");
        assert!(
            figure.data.iter().all(|point| point["attempts"].as_u64() > Some(0)),
            "{id}: {}",
            figure.lines()
        );
        assert!(table::claims(&figure).contains("postgres-repeatable-read"), "{id}");
    }
    let error = figure(&mut laboratory, "cat-fig9", 1).expect_err("there is none");
    assert!(error.contains("the figures are: cat-fig1"));
    drop(laboratory);
    assert!(said.iter().any(|line| line.contains("7 clients, zipf 1.2")), "{said:?}");
}
