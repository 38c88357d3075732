//! `weir analyze`: verdicts and plan, as text, JSON or a page.

use crate::application::Loaded;
use crate::cli::{AnalyzeArguments, AnalyzeFormat};
use crate::output::{self, Failure};
use crate::report;

pub fn execute(arguments: &AnalyzeArguments) -> Result<(), Failure> {
    let mut loaded = Loaded::from_paths(&arguments.paths, weir_sql::Reading::Tolerant)?;
    if arguments.every_table {
        loaded = loaded.with_every_table();
    }
    let text = match arguments.format {
        AnalyzeFormat::Text => loaded.plan_text(),
        AnalyzeFormat::Json => {
            let plan = loaded.plan();
            format!("{plan:#}\n")
        }
        AnalyzeFormat::Html => {
            let title =
                arguments.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            report::page(&title, &loaded.plan(), None)
        }
    };
    match &arguments.out {
        Some(path) => output::write_file(path, &anstream::adapter::strip_str(&text).to_string()),
        None => {
            output::print(&text);
            Ok(())
        }
    }
}
