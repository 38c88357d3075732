//! A paper's table or figure, measured anew: data, panels to draw, and a verdict for each claim.

use serde::Serialize;

use crate::plot::Panel;

/// Origin of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Servers ran here, and time was measured.
    Measured,
    /// Machines ran in virtual time.
    Simulated,
    /// A function gives them.
    Calculated,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Measured => "measured",
            Kind::Simulated => "simulated",
            Kind::Calculated => "calculated",
        }
    }
}

/// Our number beside the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Reproduced,
    /// Better than the paper's.
    Exceeded,
    NotReached,
}

impl Verdict {
    /// Reproduced if it holds.
    pub fn of(holds: bool) -> Verdict {
        if holds { Verdict::Reproduced } else { Verdict::NotReached }
    }

    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Exceeded => "exceeded",
            Verdict::NotReached => "not reached",
        }
    }
}

/// A claim of a paper, or of ours, beside what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    pub claim: String,
    /// The paper's number or words, or the condition on ours.
    pub theirs: String,
    pub ours: String,
    pub verdict: Verdict,
}

impl Claim {
    pub fn new(
        claim: impl Into<String>,
        theirs: impl Into<String>,
        ours: impl Into<String>,
        verdict: Verdict,
    ) -> Claim {
        Claim { claim: claim.into(), theirs: theirs.into(), ours: ours.into(), verdict }
    }
}

/// A figure or a table.
#[derive(Clone, Debug)]
pub struct Figure {
    /// As `weir reproduce` knows it.
    pub id: String,
    /// File of the paper.
    pub paper: &'static str,
    pub title: String,
    pub kind: Kind,
    /// Conditions of the measurement.
    pub notes: Vec<String>,
    pub panels: Vec<Panel>,
    /// One for each point.
    pub data: Vec<serde_json::Value>,
    pub claims: Vec<Claim>,
}

impl Figure {
    /// The data as lines of JSON.
    pub fn lines(&self) -> String {
        self.data.iter().map(|point| format!("{point}\n")).collect()
    }
}
