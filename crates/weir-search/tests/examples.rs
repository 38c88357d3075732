//! Witnesses of the examples.
use std::path::PathBuf;
use weir_sql::Sources;

#[test]
fn probe() {
    let name = std::env::var("EXAMPLE").unwrap_or("tpcc".into());
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(&name);
    let mut sources = Sources::default();
    for file in ["schema.sql", "procedures.sql", "invariants.sql"] {
        sources.add(file, std::fs::read_to_string(folder.join(file)).expect("file"));
    }
    let app = weir_sql::load(sources).map_err(|e| format!("{:?}", e.1)).expect("loads");
    let mut analysis = weir_analysis::analyze(&app);
    let begin = std::time::Instant::now();
    let summary = weir_search::attach(&app, &mut analysis, weir_search::Limits::default());
    println!("{summary:?} {:?}", begin.elapsed());
    for v in analysis.verdicts.iter().filter(|v| !v.confluent) {
        println!("{} | {} | {:?}", app.procedures[v.transaction].name, analysis.invariants[v.invariant.0 as usize].name, v.decided_by);
        match &v.witness {
            None => println!("   NONE {}", v.because),
            Some(w) => {
                let count: Vec<String> = w.initial.iter().map(|t| format!("{} {}", t.rows.len(), t.table)).collect();
                println!("   from {}", count.join(", "));
                println!("   left  {}", w.left.iter().map(|c| c.text()).collect::<Vec<_>>().join("; "));
                println!("   right {}", w.right.iter().map(|c| c.text()).collect::<Vec<_>>().join("; "));
                println!("   => {}", w.violation());
            }
        }
    }
}
