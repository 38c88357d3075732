//! Ids lead to figures, and a page is made of them.

use std::path::Path;

use weir_cat_bench::target::{Level, Target};
use weir_harness::figure::Kind;
use weir_harness::folder::Folder;
use weir_harness::machine::Machine;
use weir_reproduce::report::Report;
use weir_reproduce::{Effort, Reproducer, ids};

#[test]
fn figures_of_each_paper_are_reproduced_at_a_tiny_scale() {
    let targets = [Target::PostgresInteractive(Level::Serializable)];
    let mut silent = |_: &str| {};
    let mut reproducer = Reproducer::new(Effort::Tiny, &targets, (Path::new("weir"), 1), 1, &mut silent);
    let folder = Folder::new("reproduced").expect("a folder");
    let mut report = Report::new(Some(folder.path()), Machine::here(), "a test".to_owned()).expect("a page");
    for (id, kind) in [
        ("cat-fig2", Kind::Calculated),
        ("cat-fig8", Kind::Measured),
        ("confluence-fig3", Kind::Calculated),
        ("eris-fig6", Kind::Simulated),
        ("elia-fig6", Kind::Simulated),
        ("eris-fig12", Kind::Measured),
        ("eris-table1", Kind::Measured),
    ] {
        let figure = reproducer.figure(id).expect(id);
        assert_eq!((figure.id.as_str(), figure.kind), (id, kind));
        assert!(!figure.data.is_empty() && !figure.claims.is_empty(), "{id}");
        report.add(figure).expect("it can be drawn");
    }
    let page = std::fs::read_to_string(folder.path().join("index.html")).expect("a page");
    assert_eq!(page.matches("<svg").count(), report.figures().len());
    let error = reproducer.figure("eris-fig1").expect_err("it is a drawing");
    assert!(error.contains("eris-fig11"), "{error}");
}

#[test]
fn ids_differ() {
    let mut all: Vec<String> = ids().collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), count), (29, 29));
}
