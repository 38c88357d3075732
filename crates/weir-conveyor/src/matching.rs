//! Which operation is this? A transaction that comes statement by statement is matched against the templates of the application.
//!
//! A template stands for all its statements, in any order and any number, under one binding of its parameters: that is what the analysis has
//! judged (operation-partitioning.txt §3.1: all statements count, regardless of the path). So a transaction may run as a template's class says as
//! long as that template covers every statement so far. A wrong guess is impossible: a statement that no covering template allows at the place
//! where the transaction runs makes it start again elsewhere, or is refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::epochs::ServerId;
use crate::message::Placement;
use crate::routing::{Routing, RoutingValue};

/// Candidates that are kept. More are dropped: what they alone cover is refused.
const CANDIDATES_MAX: usize = 64;

/// Class of a transaction (§3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Commutative,
    Local,
    Global,
    /// Local where all partitioning parameters route to one server, else global at the server of `home`.
    LocalGlobal,
}

/// Where an argument of a statement comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A parameter of the transaction, by index.
    Parameter(usize),
    Constant(RoutingValue),
    /// Anything: a value that the transaction has computed, or of a type that does not route.
    Free,
}

/// A statement of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementTemplate {
    /// The text with its constants as parameters, in the form in which statements are looked up.
    pub text: String,
    pub arguments: Vec<Source>,
}

/// A transaction of the application, and how its operations are routed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub name: String,
    pub class: Class,
    /// The partitioning parameter. None: any server will do.
    pub home: Option<usize>,
    /// Further partitioning parameters of a local/global transaction.
    pub others: Vec<usize>,
    pub statements: Vec<StatementTemplate>,
}

/// A column of a table, by numbers of the catalog.
pub type Column = (u32, u16);

/// All templates.
#[derive(Clone, Debug)]
pub struct Templates {
    templates: Vec<Template>,
    /// Templates that have a statement, and its place there.
    by_text: BTreeMap<String, Vec<(usize, usize)>>,
    /// Columns that commutative or local operations write: each server has its own values there.
    local_writes: BTreeSet<Column>,
    routing: Routing,
}

/// A statement of a transaction.
#[derive(Clone, Debug)]
pub struct Statement<'a> {
    pub text: &'a str,
    pub arguments: &'a [RoutingValue],
    /// Columns that it reads or writes, conditions included. None: not known.
    pub touches: Option<&'a BTreeSet<Column>>,
}

/// How a statement is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementAction {
    /// At the place of the transaction, which is this one.
    Runs(Placement),
    /// The transaction rolls back, and runs all its statements again at this place. If an answer differs from one that its client has seen, it
    /// is refused.
    Restarts(Placement),
    Refused(Refusal),
}

/// Why a statement is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No template covers the transaction, and it touches what servers have on their own. It would see, or change, what is not its server's.
    TouchesLocalRows,
    /// No template covers it, and what it touches is not known.
    Unknown,
}

impl Templates {
    pub fn new(templates: Vec<Template>, local_writes: BTreeSet<Column>, routing: Routing) -> Templates {
        let mut by_text: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
        for (template, each) in templates.iter().enumerate() {
            for (place, statement) in each.statements.iter().enumerate() {
                by_text.entry(statement.text.clone()).or_default().push((template, place));
            }
        }
        Templates { templates, by_text, local_writes, routing }
    }

    /// The map of slots by which they place.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// The same templates with another map.
    #[must_use]
    pub fn routed(&self, routing: Routing) -> Templates {
        Templates { routing, ..self.clone() }
    }

    /// The place of a call, which names its transaction and all its arguments. None: nobody has such a transaction.
    pub fn call(&self, name: &str, arguments: &[RoutingValue], here: ServerId) -> Option<Placement> {
        let template = self.templates.iter().position(|each| each.name == name)?;
        let bound = arguments.iter().cloned().enumerate().collect();
        self.place(&Candidate { template, bound }, here)
    }

    /// The place of a candidate. None: a parameter that decides has no value yet.
    fn place(&self, candidate: &Candidate, here: ServerId) -> Option<Placement> {
        let Template { class, home, others, .. } = &self.templates[candidate.template];
        let home = match home {
            Some(parameter) => self.routing.server(candidate.bound.get(parameter)?),
            None => here,
        };
        Some(match class {
            Class::Commutative => Placement::Commutative,
            Class::Local => Placement::Local(home),
            Class::Global => Placement::Global(home),
            Class::LocalGlobal => {
                let other =
                    |parameter| candidate.bound.get(parameter).map(|value| self.routing.server(value));
                let all: Option<Vec<ServerId>> = others.iter().map(other).collect();
                match all?.iter().all(|server| *server == home) {
                    true => Placement::Local(home),
                    false => Placement::Global(home),
                }
            }
        })
    }

    /// Returns whether a transaction that is covered by the candidate may run at a place. What has no value yet may get one that fits.
    fn may_run(&self, candidate: &Candidate, place: Placement) -> bool {
        let Template { class, home, others, .. } = &self.templates[candidate.template];
        let routes_to = |parameter: &usize, server| {
            candidate.bound.get(parameter).is_none_or(|value| self.routing.server(value) == server)
        };
        let is_home = |server| home.iter().all(|parameter| routes_to(parameter, server));
        match (class, place) {
            (Class::Commutative, _) => true,
            (_, Placement::Commutative) => false,
            (Class::Local, Placement::Local(server)) => is_home(server),
            // A local operation may run as a global one of its server: others apply changes that they never look at.
            (_, Placement::Global(server)) => is_home(server),
            (Class::Global, Placement::Local(_)) => false,
            (Class::LocalGlobal, Placement::Local(server)) => {
                is_home(server) && others.iter().all(|parameter| routes_to(parameter, server))
            }
        }
    }
}

/// A template that covers the transaction so far, with the values of its parameters that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    template: usize,
    bound: BTreeMap<usize, RoutingValue>,
}

impl Candidate {
    /// The candidate that covers one statement more. None: it does not.
    fn with(&self, sources: &[Source], arguments: &[RoutingValue]) -> Option<Candidate> {
        if sources.len() != arguments.len() {
            return None;
        }
        let mut bound = self.bound.clone();
        for (source, argument) in sources.iter().zip(arguments) {
            match source {
                Source::Free => {}
                Source::Constant(value) if value == argument => {}
                Source::Constant(_) => return None,
                Source::Parameter(parameter) => {
                    if bound.entry(*parameter).or_insert_with(|| argument.clone()) != argument {
                        return None;
                    }
                }
            }
        }
        Some(Candidate { template: self.template, bound })
    }
}

/// A transaction that comes statement by statement.
#[derive(Clone, Debug)]
pub struct Matching {
    /// The server of the agent that has the client.
    here: ServerId,
    candidates: Vec<Candidate>,
    /// None before the first statement.
    place: Option<Placement>,
    /// Everything that its statements touch. None: not known.
    touched: Option<BTreeSet<Column>>,
}

impl Matching {
    pub fn new(templates: &Templates, here: ServerId) -> Matching {
        let all = 0..templates.templates.len();
        let candidates = all.map(|template| Candidate { template, bound: BTreeMap::new() }).collect();
        Matching { here, candidates, place: None, touched: Some(BTreeSet::new()) }
    }

    /// Names of the templates that cover the transaction.
    pub fn covering<'a>(&self, templates: &'a Templates) -> BTreeSet<&'a str> {
        self.candidates.iter().map(|each| templates.templates[each.template].name.as_str()).collect()
    }

    /// Takes the next statement.
    pub fn statement(&mut self, templates: &Templates, statement: &Statement<'_>) -> StatementAction {
        self.touched = match (self.touched.take(), statement.touches) {
            (Some(touched), Some(more)) => Some(touched.union(more).copied().collect()),
            _ => None,
        };
        self.narrow(templates, statement);
        self.act(templates)
    }

    /// The same for the last statement, once it is known what all statements so far touch.
    pub fn touching(&mut self, templates: &Templates, touched: BTreeSet<Column>) -> StatementAction {
        self.touched = Some(touched);
        self.act(templates)
    }

    fn act(&mut self, templates: &Templates) -> StatementAction {
        if let Some(place) = self.place
            && self.candidates.iter().any(|candidate| templates.may_run(candidate, place))
        {
            return StatementAction::Runs(place);
        }
        let place = match self.candidates.is_empty() {
            true => self.uncovered(templates),
            false => Ok(self.best(templates)),
        };
        match (place, self.place) {
            (Err(refusal), _) => StatementAction::Refused(refusal),
            (Ok(place), Some(before)) if place != before => {
                self.place = Some(place);
                StatementAction::Restarts(place)
            }
            (Ok(place), _) => {
                self.place = Some(place);
                StatementAction::Runs(place)
            }
        }
    }

    fn narrow(&mut self, templates: &Templates, statement: &Statement<'_>) {
        let places = templates.by_text.get(statement.text).map_or(&[][..], Vec::as_slice);
        let mut narrowed: Vec<Candidate> = Vec::new();
        for candidate in &self.candidates {
            for (template, place) in places {
                if *template != candidate.template {
                    continue;
                }
                let sources = &templates.templates[*template].statements[*place].arguments;
                if let Some(next) = candidate.with(sources, statement.arguments)
                    && !narrowed.contains(&next)
                    && narrowed.len() < CANDIDATES_MAX
                {
                    narrowed.push(next);
                }
            }
        }
        self.candidates = narrowed;
    }

    /// The place on which all candidates agree; while they do not, the transaction is global.
    fn best(&self, templates: &Templates) -> Placement {
        let places: Vec<_> =
            self.candidates.iter().map(|candidate| templates.place(candidate, self.here)).collect();
        if let Some(Some(first)) = places.first()
            && places.iter().all(|place| *place == Some(*first))
        {
            return *first;
        }
        let known = places.iter().flatten().find_map(|place| place.server());
        Placement::Global(known.unwrap_or(self.here))
    }

    /// The place of a transaction that no template covers. As a global one it is serializable if it touches nothing that commutative or local
    /// operations write, since every server has that alike, up to the visits that it has applied.
    fn uncovered(&self, templates: &Templates) -> Result<Placement, Refusal> {
        let touched = self.touched.as_ref().ok_or(Refusal::Unknown)?;
        if !touched.is_disjoint(&templates.local_writes) {
            return Err(Refusal::TouchesLocalRows);
        }
        Ok(match self.place {
            Some(Placement::Global(server)) => Placement::Global(server),
            _ => Placement::Global(self.here),
        })
    }
}

#[cfg(test)]
mod tests;
