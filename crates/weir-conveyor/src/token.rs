//! The token and what it carries (operation-partitioning.txt §4, "Handling the token").

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::epochs::{Epoch, ServerId, VisitNumber};

/// The state updates of one visit, whose outbox no longer changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit<U> {
    pub number: VisitNumber,
    /// One for each global operation that has changed something, in an order that agrees with the order of the versions of each row.
    pub updates: Vec<U>,
}

/// The licence to execute global operations, and the visits that others may lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token<U> {
    pub epoch: Epoch,
    /// The visit that the receiver has. The one before has ended.
    pub visit: VisitNumber,
    /// Consecutive visits, the last of them the one before `visit`. A receiver reads earlier ones from their outboxes.
    pub carried: Vec<Arc<Visit<U>>>,
    /// Up to which visit each server has applied all visits, at least. A server that is missing has applied none, as far as the token knows.
    pub applied: BTreeMap<ServerId, VisitNumber>,
    /// Visits in a row, up to now, in which there was nothing to do.
    pub idle: u32,
}

impl<U> Token<U> {
    pub fn new(epoch: Epoch, visit: VisitNumber) -> Token<U> {
        Token { epoch, visit, carried: Vec::new(), applied: BTreeMap::new(), idle: 0 }
    }

    /// The visit up to which all these servers have applied.
    pub fn applied_by_all(&self, servers: impl IntoIterator<Item = ServerId>) -> VisitNumber {
        let applied = |server| self.applied.get(&server).copied().unwrap_or(0);
        servers.into_iter().map(applied).min().unwrap_or(0)
    }

    /// Adds the visit of the token, which has ended, and goes on to the next one.
    ///
    /// # Panics
    /// It is another visit.
    pub fn end_visit(
        &mut self,
        server: ServerId,
        visit: Arc<Visit<U>>,
        ring: &[ServerId],
        carried_max: usize,
    ) {
        assert!(visit.number == self.visit, "a visit ends once");
        self.applied.insert(server, visit.number);
        self.carried.push(visit);
        let applied = self.applied_by_all(ring.iter().copied());
        let excess = self.carried.len().saturating_sub(carried_max);
        let applied = self.carried.iter().take_while(|visit| visit.number <= applied).count();
        self.carried.drain(..applied.max(excess));
        self.visit += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(token: &mut Token<()>, server: ServerId, carried_max: usize) {
        let visit = Arc::new(Visit { number: token.visit, updates: Vec::new() });
        token.end_visit(server, visit, &[0, 1, 2], carried_max);
    }

    #[test]
    fn a_visit_is_carried_until_all_have_applied_it() {
        let mut token = Token::new(1, 1);
        let mut carried = Vec::new();
        for turn in 0..5 {
            ended(&mut token, turn % 3, 10);
            carried.push(token.carried.len());
        }
        assert_eq!(carried, [1, 2, 2, 2, 2]);
        assert_eq!((token.visit, token.carried[0].number), (6, 4));
    }

    #[test]
    fn a_token_carries_no_more_than_it_may() {
        let mut token = Token::new(1, 1);
        (0..5).for_each(|_| ended(&mut token, 0, 2));
        assert_eq!(token.carried.iter().map(|visit| visit.number).collect::<Vec<_>>(), [4, 5]);
    }
}
