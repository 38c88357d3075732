//! Figures and tables of the papers by their ids, each measured, simulated or calculated anew, and the page of their verdicts
//! (docs/internals/cat.md).
//!
//! It measures nothing itself: it asks the crates that do, and puts their answers into one form. Those of ramp.txt and Figure 6 of
//! coordination-avoidance.txt, which need PostgreSQL's grammar, are in the command `weir reproduce`.

mod elia;
mod eris;
mod eris_measured;
mod page;
pub mod report;
mod simulated;

use std::path::Path;

use weir_cat_bench::experiments;
use weir_cat_bench::laboratory::{self, Laboratory};
use weir_cat_bench::servers::Servers;
use weir_cat_bench::target::Target;
use weir_harness::figure::Figure;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// To see that it works; the numbers say nothing.
    Tiny,
    /// Minutes.
    Quick,
    /// Hours.
    Full,
}

impl Effort {
    /// As the options `--tiny` and `--quick` say.
    pub fn of(is_tiny: bool, is_quick: bool) -> Effort {
        match (is_tiny, is_quick) {
            (true, _) => Effort::Tiny,
            (_, true) => Effort::Quick,
            _ => Effort::Full,
        }
    }

    /// The option by which it is asked for, with a blank before it; empty for the full effort.
    pub fn option(self) -> &'static str {
        match self {
            Effort::Tiny => " --tiny",
            Effort::Quick => " --quick",
            Effort::Full => "",
        }
    }

    fn is_full(self) -> bool {
        self == Effort::Full
    }
}

/// Measures figures. Points that several figures have are measured once.
pub struct Reproducer<'a> {
    laboratory: Laboratory<'a>,
    effort: Effort,
    seed: u64,
}

/// All ids, by paper.
pub fn ids() -> impl Iterator<Item = String> {
    let cat = experiments::IDS.iter().map(|id| (*id).to_owned());
    let measured = eris_measured::IDS.iter().map(|id| (*id).to_owned());
    cat.chain(eris::ids()).chain(measured).chain(elia::ids())
}

impl<'a> Reproducer<'a> {
    /// `weir` is the program of that name, which is started where a figure needs it, with so many shards.
    pub fn new(
        effort: Effort,
        targets: &[Target],
        (weir, shards): (&Path, u16),
        seed: u64,
        listener: &'a mut dyn FnMut(&str),
    ) -> Reproducer<'a> {
        let servers = Servers::new(weir, shards);
        let measured = match effort {
            Effort::Tiny => laboratory::Effort::tiny(),
            Effort::Quick => laboratory::Effort::quick(),
            Effort::Full => laboratory::Effort::full(),
        };
        Reproducer { laboratory: Laboratory::new(measured, targets, servers, seed, listener), effort, seed }
    }

    /// # Errors
    /// There is no such figure, or it could not be measured: what went wrong, and what to do.
    pub fn figure(&mut self, id: &str) -> Result<Figure, String> {
        // A server that has ended would fail the next figure, too.
        let measured = self.measured(id);
        if measured.is_err() {
            self.laboratory.end_servers();
        }
        measured
    }

    fn measured(&mut self, id: &str) -> Result<Figure, String> {
        if experiments::IDS.contains(&id) {
            return experiments::figure(&mut self.laboratory, id, self.seed);
        }
        let known = eris::figure(id, self.effort, self.seed)
            .or_else(|| elia::figure(id, self.effort, self.seed))
            .or_else(|| eris_measured::figure(id, self.effort, self.seed, self.laboratory.listener()));
        known.unwrap_or_else(|| {
            let names: Vec<String> = ids().collect();
            Err(format!("there is no figure `{id}`; the figures are: {}", names.join(", ")))
        })
    }
}
