//! Rows that a prepared statement names by their primary keys: what contention is measured by. Asks nobody.

use weir_txn::exec::accessed_rows::AccessedRow;
use weir_types::Value;

use crate::calls::begins_now;
use crate::prepared::{Prepared, What};

impl Prepared {
    /// The row's table, and its primary key.
    pub fn table_of(&self, key: &AccessedRow<'_>) -> &str {
        &self.of.program.schema.table(key.table).name
    }

    /// Rows that it names with these values of the client's parameters, each as often as it is named. None of a statement that is run as
    /// several, of one that needs sequence values of the session, and of an INSERT.
    pub fn each_accessed_row(&self, values: &[Value], visit: &mut dyn FnMut(AccessedRow<'_>)) {
        if values.len() != self.parameters.len() {
            return;
        }
        let program = &self.of.program;
        let with = |constants: &[Value]| [values, constants].concat();
        match &self.what {
            What::Query { gather, constants } => gather.each_accessed_row(&with(constants), program, visit),
            What::Call { procedure, arguments, .. } => {
                // An argument that cannot be computed is an error when the call runs.
                let Ok(args) = self.of.work_out(arguments, values, begins_now()) else { return };
                program.procedures[*procedure].each_accessed_row(&args, visit);
            }
            What::Write { text, constants, .. } => {
                let Ok(text) = program.text(text) else { return };
                text.procedure.each_accessed_row(&with(constants), visit);
            }
            What::Many(_) | What::SubStatements(_) => {}
        }
    }
}
