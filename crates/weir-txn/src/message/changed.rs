//! Rows that a statement has changed, for the checks of assertions before its transaction commits (docs/internals/admission.md).

use serde::{Deserialize, Serialize};
use weir_types::Value;

/// Number of keys of one assertion that are checked one by one; with more the whole assertion is.
pub const CHANGED_KEYS_MAX: usize = 64;

/// Keys of the rows that assertions are to be checked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changed(Vec<ChangedOf>);

/// A check of an assertion.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// By its index.
    pub assertion: usize,
    /// The number of a link, and the key that rows equal; none: all rows.
    pub key: Option<(u32, Vec<Value>)>,
}

/// By assertion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ChangedOf {
    assertion: u32,
    /// With the numbers of their links; none at all: the whole assertion.
    keys: Vec<(u32, Vec<Value>)>,
    whole: bool,
}

impl Changed {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add_whole(&mut self, assertion: u32) {
        let of = self.of(assertion);
        (of.whole, of.keys) = (true, Vec::new());
    }

    /// A key with NULL concerns no anchor.
    pub fn add(&mut self, assertion: u32, link: u32, key: Vec<Value>) {
        let of = self.of(assertion);
        let key = (link, key);
        if of.whole || key.1.iter().any(Value::is_null) || of.keys.contains(&key) {
            return;
        }
        of.keys.push(key);
        if of.keys.len() > CHANGED_KEYS_MAX {
            self.add_whole(assertion);
        }
    }

    pub fn extend(&mut self, more: Changed) {
        for one in more.0 {
            if one.whole {
                self.add_whole(one.assertion);
            }
            one.keys.into_iter().for_each(|(link, key)| self.add(one.assertion, link, key));
        }
    }

    /// The checks to run.
    pub fn into_checks(self) -> impl Iterator<Item = Check> {
        self.0.into_iter().flat_map(|one| {
            let assertion = one.assertion as usize;
            let whole = one.whole.then_some(None);
            whole.into_iter().chain(one.keys.into_iter().map(Some)).map(move |key| Check { assertion, key })
        })
    }

    fn of(&mut self, assertion: u32) -> &mut ChangedOf {
        let at = match self.0.iter().position(|one| one.assertion == assertion) {
            Some(at) => at,
            None => {
                self.0.push(ChangedOf { assertion, keys: Vec::new(), whole: false });
                self.0.len() - 1
            }
        };
        &mut self.0[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_are_the_whole_assertion() {
        let mut changed = Changed::default();
        changed.add(1, 0, vec![Value::Null]);
        (0..CHANGED_KEYS_MAX as i64).chain(0..9).for_each(|key| changed.add(1, 0, vec![Value::Int(key)]));
        assert_eq!(changed.clone().into_checks().count(), CHANGED_KEYS_MAX);
        let mut more = Changed::default();
        more.add(1, 1, vec![Value::Int(0)]);
        changed.extend(more);
        assert_eq!(changed.into_checks().collect::<Vec<_>>(), [Check { assertion: 1, key: None }]);
    }
}
