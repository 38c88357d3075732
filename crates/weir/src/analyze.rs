//! `weir analyze`: verdicts and plan, as text, JSON, a page, or for a CI.

use std::time::Duration;

use weir_analysis::Weights;
use weir_sql::{Application, Reading, Sources};

use crate::application::Loaded;
use crate::cli::{AnalyzeArguments, AnalyzeFormat};
use crate::output::{self, Failure};
use crate::{application, input, live, report, settings, statement_log, ways_out, weights};

pub fn execute(arguments: &AnalyzeArguments) -> Result<(), Failure> {
    let (mut application, logged) = read(arguments)?;
    let weights = weights::of(&mut application, &arguments.paths, arguments.weights.as_deref(), logged)?;
    let mut loaded = Loaded::of(application, &weights);
    loaded.analysis.suggestions = weir_analysis::suggestions(&loaded.application, &loaded.analysis, &weights);
    let loaded = loaded.with_witnesses();
    let outcome = ways_out::collect(&loaded, arguments)?;
    let text = match arguments.format {
        AnalyzeFormat::Text => loaded.plan_text() + &outcome.text(&loaded.application),
        AnalyzeFormat::Json => {
            let mut plan = loaded.plan();
            outcome.add_to(&loaded.application, &mut plan);
            format!("{plan:#}\n")
        }
        AnalyzeFormat::Html => {
            let paths = arguments.paths.iter().map(|path| path.display().to_string());
            let database = arguments.from.iter().filter_map(|_| loaded.application.sources.files.first());
            let title = database.map(|file| file.name.clone()).chain(paths).collect::<Vec<_>>().join(", ");
            let mut plan = loaded.plan();
            outcome.add_to(&loaded.application, &mut plan);
            report::page(&title, &plan, &loaded.application.sources, None)
        }
        AnalyzeFormat::Sarif => format!("{:#}\n", outcome.sarif(&loaded.application)),
        AnalyzeFormat::Github => outcome.github(&loaded.application),
        AnalyzeFormat::Markdown => outcome.markdown(&loaded),
    };
    match &arguments.out {
        Some(path) => output::write_file(path, &anstream::adapter::strip_str(&text).to_string())?,
        None => output::print(&text),
    }
    outcome.verdict(&loaded.application, &arguments.fail_on)
}

/// The application, and how often its transactions are called where a log tells.
fn read(arguments: &AnalyzeArguments) -> Result<(Application, Option<Weights>), Failure> {
    let mut sources = Sources::default();
    match &arguments.from {
        None => sources = input::read_sources(&arguments.paths)?,
        Some(url) => {
            live::read(url, Duration::from_secs_f64(arguments.timeout), &mut sources)?;
            input::add_sources(&arguments.paths, &mut sources)?;
        }
    }
    let (mut application, weights) = match arguments.log.is_empty() {
        true => (application::read(sources, Reading::Tolerant)?, None),
        false => {
            let (application, weights) = statement_log::read(sources, &arguments.log)?;
            (application, Some(weights))
        }
    };
    if application.catalog.tables.is_empty() {
        let first = application.sources.files.first().map_or("", |file| file.name.as_str());
        return Err(Failure::input(format!(
            "{first}:1:1: error: there is no table in it\nhint: `CREATE TABLE` is the least that can be analysed; give \
             the schema before procedures and transactions"
        )));
    }
    if arguments.every_table && !application.synthesised {
        weir_sql::synthesise(&mut application);
    }
    settings::apply(&mut application, &arguments.paths)?;
    Ok((application, weights))
}
