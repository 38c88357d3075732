//! SET CONSTRAINTS, as it travels.

use serde::{Deserialize, Serialize};

/// A SET CONSTRAINTS, in effect until the end of its transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// None: all deferrable constraints.
    pub names: Option<Vec<String>>,
    /// Deferred from here on; otherwise outstanding checks run now, and later ones immediately.
    pub deferred: bool,
}

/// Reserved name that no constraint has. A node of the previous version treats it as an unknown constraint.
const STATEMENT: &str = "\0statement";

impl Setting {
    /// The setting that COMMIT applies first: nothing is deferred.
    pub fn end() -> Setting {
        Setting { names: None, deferred: false }
    }

    /// Marks calls between `statement(true)` and `statement(false)` as batches of one statement. The second mark runs the checks of the
    /// statement's end.
    pub fn statement(begins: bool) -> Setting {
        Setting { names: Some(vec![STATEMENT.to_owned()]), deferred: begins }
    }

    pub(crate) fn is_statement(&self) -> bool {
        matches!(self.names.as_deref(), Some([name]) if name == STATEMENT)
    }

    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|one| one == name))
    }
}
