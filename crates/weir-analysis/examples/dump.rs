use weir_sql::Sources;
fn main() {
    let mut sources = Sources::default();
    for f in std::env::args().skip(1) {
        sources.add(f.clone(), std::fs::read_to_string(&f).unwrap());
    }
    let app = weir_sql::load(sources)
        .map_err(|(s, e)| e.iter().map(|e| format!("{} {}", s.place(e.span), e.message)).collect::<Vec<_>>())
        .unwrap();
    let t = std::time::Instant::now();
    let a = weir_analysis::analyze(&app);
    eprintln!("{:?}", t.elapsed());
    let p = &a.partitioning;
    println!("cost {} bound {} {}", p.cost, p.bound, p.method.name());
    for (i, r) in p.transactions.iter().enumerate() {
        let q = &app.procedures[i];
        let names: Vec<_> = r.parameters().iter().map(|i| q.parameters[*i].name.clone()).collect();
        println!("{:30} {:14} {:?}", q.name, r.class.name(), names);
        if let Some(b) = r.because {
            println!("      {}", weir_analysis::partitioning::reason(&app, p, b));
        }
    }
    for t in &app.catalog.tables {
        println!("{} {:?} {:?}", t.name, p.column(t.id).map(|c| &t.columns[c].name), a.plan.placement(t.id));
    }
}
