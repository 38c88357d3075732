//! Runs cases: each through every reading and through the analysis.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use bytes::BytesMut;
use weir_analysis::TextStyle;
use weir_pg::frontend::{Expected, Frame};
use weir_sql::bound::{Step, StepKind};
use weir_sql::ways::log;
use weir_sql::{Application, Diagnostic, Reading, Sources};

use crate::Plant;
use crate::case::Case;
use crate::corpus::Corpus;

/// Exit code of a process in which a case has panicked.
pub const PANICKED: u8 = 101;

/// Suggestions are looked for where there are no more procedures than this: they take long.
const SUGGESTED_MAX: usize = 3;

/// The stack that a program's main thread has.
const STACK_BYTES: usize = 8 << 20;

/// Runs one case after the other until it is killed or a case panics; says the number of each before it begins.
pub fn work(seed: u64, from: u64, plant: Option<Plant>) -> ExitCode {
    on_a_small_stack(move || {
        let corpus = Corpus::read();
        for number in from.. {
            let case = Case::make(seed, number, &corpus);
            println!("{number}");
            let _ = std::io::stdout().flush();
            if !answers(&case, plant) {
                return ExitCode::from(PANICKED);
            }
        }
        ExitCode::SUCCESS
    })
}

pub fn one(case: &Case, plant: Option<Plant>) -> ExitCode {
    let case = case.clone();
    on_a_small_stack(move || match answers(&case, plant) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(PANICKED),
    })
}

pub fn replay(folder: &Path, plant: Option<Plant>) -> ExitCode {
    match Case::load(folder) {
        Ok(case) => one(&case, plant),
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            ExitCode::from(2)
        }
    }
}

fn on_a_small_stack(run: impl FnOnce() -> ExitCode + Send + 'static) -> ExitCode {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        _ => ExitCode::from(PANICKED),
    }
}

/// `false` where it panicked; the panic's message is on stderr.
fn answers(case: &Case, plant: Option<Plant>) -> bool {
    catch_unwind(AssertUnwindSafe(|| {
        if case.files.iter().any(|(_, text)| text.contains("DELETE")) {
            match plant {
                Some(Plant::Panic) => panic!("planted"),
                Some(Plant::Overflow) => drop(endless(0)),
                _ => {}
            }
        }
        read_and_analyze(case, plant);
    }))
    .is_ok()
}

/// No tail call, so that every turn takes its part of the stack.
fn endless(turn: u64) -> u64 {
    match std::hint::black_box(turn) {
        u64::MAX => 0,
        turn => endless(turn + 1).wrapping_add(turn),
    }
}

/// The reader has understood what its planted bug panics at: a CHECK, a loop, a transaction with an UPDATE.
fn meet(plant: Option<Plant>, bug: Plant, is_met: impl FnOnce() -> bool) {
    if plant == Some(bug) && is_met() {
        panic!("planted");
    }
}

fn meet_in(plant: Option<Plant>, application: &Application) {
    meet(plant, Plant::Sql, || application.catalog.tables.iter().any(|table| !table.checks.is_empty()));
    let loops = |step: &Step| matches!(step.kind, StepKind::ForRange { .. } | StepKind::ForEach { .. });
    meet(plant, Plant::PlPgSql, || application.procedures.iter().flat_map(|of| &of.body).any(loops));
}

fn read_and_analyze(case: &Case, plant: Option<Plant>) {
    let (conversations, files): (Vec<_>, Vec<_>) =
        case.files.iter().partition(|(name, _)| name.ends_with(".wire"));
    conversations.iter().flat_map(|(_, text)| text.lines()).for_each(|line| read_client(line, plant));
    if files.is_empty() {
        return;
    }
    let (logs, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|(name, _)| name.ends_with(".log"));
    let mut sources = Sources::default();
    for (name, text) in files {
        sources.add(name.clone(), text.clone());
    }
    check_loaded(weir_sql::load_with(sources.clone(), Reading::Strict).map(drop));
    let loaded = weir_sql::load_with(sources.clone(), Reading::Tolerant);
    let routines: BTreeSet<String> = match &loaded {
        Ok(application) => application.procedures.iter().map(|procedure| procedure.name.clone()).collect(),
        Err(_) => BTreeSet::new(),
    };
    check_loaded(loaded.map(|application| {
        meet_in(plant, &application);
        analyze(&application);
    }));
    if logs.is_empty() {
        return;
    }
    let texts: Vec<&str> = logs.iter().map(|(_, text)| text.as_str()).collect();
    let log = log::read(&texts, &routines);
    meet(plant, Plant::Log, || log.text.contains("UPDATE"));
    let generated = sources.add("log (transactions)", log.text.clone());
    check_loaded(weir_sql::load_with(sources, Reading::Tolerant).map(|mut application| {
        let files: Vec<u32> = texts.iter().map(|text| application.sources.add("log", *text)).collect();
        log.settle(&mut application.notes, generated, &files);
        analyze(&application);
    }));
}

/// Parses a client's bytes as each state of a connection would. A message ends at its stated length.
fn read_client(line: &str, plant: Option<Plant>) {
    let digits: Vec<u8> =
        line.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    for expected in [
        Expected::Startup,
        Expected::SaslInitialResponse,
        Expected::SaslResponse,
        Expected::Command,
        Expected::CopyIn,
    ] {
        let mut rest = BytesMut::from(&bytes[..]);
        let mut left = rest.len();
        while let Ok(Some(frame)) = Frame::cut(&mut rest, expected) {
            assert_eq!(
                left - rest.len(),
                frame.body.len() + if expected == Expected::Startup { 4 } else { 5 }
            );
            left = rest.len();
            let kind = frame.kind;
            let is_read = match expected {
                Expected::Startup => frame.opening().is_ok(),
                _ => frame.message(expected).is_ok(),
            };
            meet(plant, Plant::Wire, || is_read && kind == b'B');
        }
    }
}

fn analyze(application: &Application) {
    check_places(&application.sources, &application.notes);
    let mut analysis = weir_analysis::analyze(application);
    // Each suggestion is an analysis of its own.
    if application.procedures.len() <= SUGGESTED_MAX {
        analysis.suggestions =
            weir_analysis::suggestions(application, &analysis, &weir_analysis::Weights::default());
    }
    let _ = weir_analysis::to_json(application, &analysis).to_string();
    let _ = weir_analysis::to_text(application, &analysis, TextStyle { width: 100, colours: false });
}

fn check_loaded(loaded: Result<(), (Sources, Vec<Diagnostic>)>) {
    if let Err((sources, errors)) = loaded {
        assert!(!errors.is_empty(), "a refusal says why");
        check_places(&sources, &errors);
    }
}

/// Every message points into a text, at whole characters.
fn check_places(sources: &Sources, messages: &[Diagnostic]) {
    for message in messages {
        let span = message.span;
        let file = sources.files.get(span.file as usize);
        let inside = file.is_some_and(|file| file.text.get(span.start as usize..span.end as usize).is_some());
        assert!(inside, "the place {span:?} of «{}» is in no text", message.message);
        let _ = sources.place(span);
    }
}
