//! `weir calibrate`: what the steps of the protocols take on this machine, as a file that simulations charge.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_bench::scale::calibrate::{self, Effort};
use weir_bench::scale::calls::Calls;
use weir_bench::scale::prices::Prices;
use weir_types::datetime::civil_from_days;

use crate::cli::CalibrateArguments;
use crate::output::{Failure, print, print_remark, write_file};
use crate::reproduce::new_order::shipped_calls;
use crate::run;

pub fn execute(arguments: &CalibrateArguments) -> Result<(), Failure> {
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let wire = calibrate::wire(effort)
        .map_err(|error| Failure::input(format!("weir calibrate: error: no loopback: {error}")))?;
    let protocols = calibrate::protocols(effort, |what| print_remark(&format!("weir: {what}")));
    let calls = calls(arguments.quick)?;
    let prices = Prices {
        version: 1,
        machine: machine(),
        date: date(),
        command: if arguments.quick { "weir calibrate --quick" } else { "weir calibrate" }.to_owned(),
        wire,
        protocols,
        calls,
    };
    let text = serde_json::to_string_pretty(&prices).expect("numbers and names can be written") + "\n";
    match &arguments.out {
        Some(path) => write_file(path, &text),
        None => {
            print(&text);
            Ok(())
        }
    }
}

/// Measures calls on nodes with the full population.
fn calls(quick: bool) -> Result<BTreeMap<String, f64>, Failure> {
    const SHARDS: u16 = 2;
    print_remark("weir: calls");
    let (items, customers, windows, calls) =
        if quick { (1_000, 30, 2, 500) } else { (50_000, 3_000, 7, 10_000) };
    let (loaded, workload, procedure) = shipped_calls(&[
        ("warehouses", &(3 * SHARDS)),
        ("items", &items),
        ("customers_per_district", &customers),
    ])?;
    let calls_of = Calls {
        application: &loaded.application,
        analysis: &loaded.analysis,
        workload: &workload,
        procedure,
    };
    calls_of.measure(SHARDS, windows, calls).map_err(|error| run::failure(&loaded, error))
}

fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned()));
    model.unwrap_or_else(|| "unknown processor".to_owned())
}

/// Today, in universal time.
fn date() -> String {
    /// Weir's days count from 2000.
    const DAYS_TO_2000: i64 = 10_957;
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let date = civil_from_days(days as i64 - DAYS_TO_2000);
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}
