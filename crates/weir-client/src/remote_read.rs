//! An UPDATE or a DELETE that asks for rows which live elsewhere than those that it writes: as two pieces, a query of all that it asks
//! for and the statement with those rows given.

use std::sync::Arc;

use weir_sql::ParsedText;
use weir_sql::bound::Statement;
use weir_sql::remote_read::RemoteRead;
use weir_sql::sub_statements::PieceParameter;
use weir_types::SqlType;

use crate::calls::Callable;
use crate::prepared::{Prepared, What, prepare_plain};
use crate::sub_statements::{SubStatement, SubStatements};

/// `None`: it cannot be read apart.
pub(crate) fn prepare_apart(
    of: &Arc<Callable>,
    parsed: &ParsedText<'_>,
    (statement, parameters): (&Statement, &[SqlType]),
) -> Option<Prepared> {
    let Callable { application, program, .. } = &**of;
    let is_partitioned = |table| program.partition(table).is_some();
    let apart = RemoteRead::of(&application.catalog, parsed, (statement, parameters), &is_partitioned)?;
    let read = prepare_plain(of, &apart.read, parameters).ok().filter(Prepared::reads_only)?;
    let (own, types): (Vec<PieceParameter>, Vec<SqlType>) = apart.parameters.into_iter().unzip();
    let write = prepare_plain(of, &apart.write, &types).ok()?;
    // It may ask for what cannot be given, such as the rows of a view.
    let runs = matches!(write.what, What::Write { .. }) && write.runs();
    let columns = statement.columns();
    if !runs || write.columns() != columns || write.parameters() != types {
        return None;
    }
    let client = (0..parameters.len()).map(PieceParameter::Client).collect();
    let all = vec![
        SubStatement { prepared: read, parameters: client },
        SubStatement { prepared: write, parameters: own },
    ];
    let what = What::SubStatements(Arc::new(SubStatements { all }));
    Some(Prepared::new((of, parsed.text()), what, parameters.to_vec(), columns))
}
