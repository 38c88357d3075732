//! Sessions that say scripts: lines by themselves, or of transactions.

use std::collections::BTreeMap;

#[derive(Debug)]
struct Session<L> {
    /// Of its open transaction.
    name: Option<u64>,
    /// Remaining steps, the next one last.
    script: Vec<L>,
    under_way: Option<L>,
}

#[derive(Debug)]
pub struct Sessions<L> {
    all: BTreeMap<usize, Session<L>>,
    names: u64,
}

impl<L: Clone> Sessions<L> {
    pub fn new() -> Sessions<L> {
        Sessions { all: BTreeMap::new(), names: 0 }
    }

    fn of(&mut self, session: usize) -> &mut Session<L> {
        self.all.entry(session).or_insert_with(|| Session { name: None, script: Vec::new(), under_way: None })
    }

    /// The next line, of a script that is drawn where there is none; none where it is the last time and nothing is open.
    pub fn next(&mut self, session: usize, is_last: bool, draw: impl FnOnce() -> Vec<L>) -> Option<L> {
        let of = self.of(session);
        if is_last && of.name.is_none() {
            return None;
        }
        if of.script.is_empty() {
            of.script = draw();
            of.script.reverse();
        }
        of.under_way = of.script.pop();
        of.under_way.clone()
    }

    /// Of its transaction, which it begins where it has none.
    pub fn name(&mut self, session: usize) -> u64 {
        let next = self.names + 1;
        let name = *self.of(session).name.get_or_insert(next);
        self.names = self.names.max(name);
        name
    }

    pub fn is_open(&mut self, session: usize) -> bool {
        self.of(session).name.is_some()
    }

    /// Step whose result the session has received.
    pub fn told(&mut self, session: usize) -> L {
        self.of(session).under_way.take().expect("something was under way")
    }

    /// It says this instead of what it was to say.
    pub fn say(&mut self, session: usize, lines: Vec<L>) {
        self.of(session).script = lines.into_iter().rev().collect();
    }

    /// Its transaction is over, and its script.
    pub fn end(&mut self, session: usize) {
        self.all.remove(&session);
    }
}
