//! A change of the schema, as it travels: its text, and the plan of the schema that it produces.
//!
//! [`crate::exec::definition`] makes and compiles it.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock, Weak};

use serde::{Deserialize, Serialize};
use weir_analysis::plan::Plan;
use weir_sql::catalog::TableId;

/// A statement that changes the schema, or truncates tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Definition {
    /// Schema version that it changes.
    pub upon: u64,
    /// Schema version that it produces.
    pub becomes: u64,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Change {
    Schema {
        text: String,
        plan: PlanOf,
    },
    Truncate {
        tables: Vec<TableId>,
        /// TRUNCATE … RESTART IDENTITY.
        restarts: bool,
    },
}

/// A plan that is ignored by comparisons and hashes.
#[derive(Clone, Serialize, Deserialize)]
pub struct PlanOf {
    plan: Arc<Plan>,
    /// The compiled program, shared by the shards of the process that made the definition while it lives. Other processes compile the text.
    #[serde(skip)]
    program: OnceLock<Weak<dyn Any + Send + Sync>>,
}

impl PlanOf {
    pub fn new(plan: Plan) -> PlanOf {
        PlanOf { plan: Arc::new(plan), program: OnceLock::new() }
    }

    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Keeps the program that has been compiled of it, as long as others do.
    pub(crate) fn set_program<P: Any + Send + Sync>(&self, program: &Arc<P>) {
        let program: Weak<P> = Arc::downgrade(program);
        // Only the first is kept: a definition is compiled once where it is made.
        let _ = self.program.set(program);
    }

    /// The program, if it was compiled in this process and lives.
    pub(crate) fn program<P: Any + Send + Sync>(&self) -> Option<Arc<P>> {
        self.program.get()?.upgrade()?.downcast().ok()
    }
}

/// The plan alone: what has come of it says nothing of the definition.
impl std::fmt::Debug for PlanOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanOf").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl PartialEq for PlanOf {
    fn eq(&self, other: &PlanOf) -> bool {
        self.plan == other.plan
    }
}

impl Eq for PlanOf {}

impl Hash for PlanOf {
    /// Definitions that differ in their plans alone are rare.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
