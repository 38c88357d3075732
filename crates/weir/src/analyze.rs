//! `weir analyze`: verdicts and plan, as text, JSON or a page.

use std::time::Duration;

use weir_sql::{Reading, Sources};

use crate::application::Loaded;
use crate::cli::{AnalyzeArguments, AnalyzeFormat};
use crate::output::{self, Failure};
use crate::{input, live, report};

pub fn execute(arguments: &AnalyzeArguments) -> Result<(), Failure> {
    let mut loaded = load(arguments)?;
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
            let paths = arguments.paths.iter().map(|path| path.display().to_string());
            let database = arguments.from.iter().filter_map(|_| loaded.application.sources.files.first());
            let title = database.map(|file| file.name.clone()).chain(paths).collect::<Vec<_>>().join(", ");
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

fn load(arguments: &AnalyzeArguments) -> Result<Loaded, Failure> {
    let Some(url) = &arguments.from else {
        return Loaded::from_paths(&arguments.paths, Reading::Tolerant);
    };
    let mut sources = Sources::default();
    live::read(url, Duration::from_secs_f64(arguments.timeout), &mut sources)?;
    input::add_sources(&arguments.paths, &mut sources)?;
    Loaded::from_sources(sources, Reading::Tolerant)
}
