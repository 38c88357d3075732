//! scratch
use std::sync::Arc;
use weir_bench::run::*;
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let shards: u16 = std::env::args().nth(2).unwrap().parse().unwrap();
    let seconds: f64 = std::env::args().nth(3).unwrap().parse().unwrap();
    let clients: u32 = std::env::args().nth(4).unwrap().parse().unwrap();
    let protocol = std::env::args().nth(5).unwrap();
    let overrides: Vec<(String, String)> = std::env::args()
        .skip(6)
        .map(|a| {
            let (k, v) = a.split_once('=').unwrap();
            (k.to_string(), v.to_string())
        })
        .collect();
    let mut sources = weir_sql::Sources::default();
    for f in ["schema.sql", "procedures.sql", "invariants.sql"] {
        sources.add(format!("{dir}/{f}"), std::fs::read_to_string(format!("{dir}/{f}")).unwrap());
    }
    let t = std::time::Instant::now();
    let mut app = match weir_sql::load(sources) {
        Ok(app) => app,
        Err((sources, errors)) => {
            for e in errors {
                println!("{} {} {:?}", sources.place(e.span), e.message, e.hint);
            }
            return;
        }
    };
    eprintln!("sql {:?}", t.elapsed());
    let t = std::time::Instant::now();
    let analysis = weir_analysis::analyze(&app);
    eprintln!("analysis {:?}", t.elapsed());
    for t in &analysis.plan.transactions {
        eprintln!(
            "{} {:?} {:?} single {}",
            app.procedures[t.procedure].name,
            t.mechanism,
            t.guards.iter().map(|g| (g.kind, g.statement)).collect::<Vec<_>>(),
            t.single_partition
        );
    }
    if std::env::var("PLAN").is_ok() {
        let program = weir_txn::exec::program::Program::compile(&app, &analysis.plan, shards).unwrap();
        for a in &app.assertions {
            let c = weir_txn::exec::assertion::CompiledAssertion::compile(a, &app.catalog, &program).unwrap();
            println!("{:#?}", c);
        }
        return;
    }
    let file =
        app.sources.add("workload.toml", std::fs::read_to_string(format!("{dir}/workload.toml")).unwrap());
    let workload = match weir_bench::Workload::parse(&app, file, &overrides) {
        Ok(w) => Arc::new(w),
        Err(errors) => {
            for e in errors {
                println!("{} {} {:?}", app.sources.place(e.span), e.message, e.hint);
            }
            return;
        }
    };
    let options = RunOptions {
        shards,
        clients,
        limit: Limit::Seconds(seconds),
        seed: 1,
        protocol: weir_txn::ramp::Protocol::by_name(&protocol).unwrap(),
        audit_every: std::env::var("AUDIT").ok().and_then(|a| a.parse().ok()),
        bugs: Default::default(),
    };
    let t = std::time::Instant::now();
    let loaded = match load(&app, &analysis, &workload, &options, true, &mut |_| {}) {
        Ok(l) => l,
        Err(RunError::Compile(e)) => {
            println!("{}: {}", app.sources.place(e.span), e.error);
            return;
        }
        Err(e) => {
            println!("{e:?}");
            return;
        }
    };
    eprintln!("load {:?}", t.elapsed());
    for p in &loaded.program.procedures {
        eprintln!("{} {:?}", p.name, p.participants);
    }
    let t = std::time::Instant::now();
    let report = loaded.run(&workload, &mut |_| {}).unwrap();
    eprintln!("run+check {:?}", t.elapsed());
    for (n, r) in &report.by_transaction {
        println!(
            "{n:14} {:8} {:6} {:9.0}/s p50 {} p99 {}",
            r.committed, r.aborted, r.throughput, r.latency_us.p50, r.latency_us.p99
        );
    }
    println!("{:?} {:?} converged {}", report.aborted, report.memory, report.converged);
    for i in report.invariants {
        if !i.holds || i.id.starts_with("c_") {
            println!("{} {} {} {:?}", i.id, i.holds, i.rows_checked, i.violation);
        }
    }
}
