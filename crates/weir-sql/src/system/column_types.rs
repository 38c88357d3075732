//! Which type PostgreSQL says that a column of the system catalog has, where the engine has another one for it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use weir_types::CatalogType;

use crate::bound::OutputColumn;

type Columns = BTreeMap<&'static str, CatalogType>;

/// By relation, without `pg_catalog.`, and column.
fn relations() -> &'static BTreeMap<&'static str, Columns> {
    static RELATIONS: OnceLock<BTreeMap<&'static str, Columns>> = OnceLock::new();
    RELATIONS.get_or_init(|| {
        let lines = include_str!("column_types.txt").lines().filter(|line| !line.starts_with('#'));
        let mut relations = BTreeMap::new();
        for line in lines {
            let mut words = line.split(' ');
            let Some(relation) = words.next() else { continue };
            let of_type = |word: &'static str| {
                let (number, columns) = word.split_once(':')?;
                let ty = CatalogType(number.parse().ok()?);
                Some(columns.split(',').map(move |column| (column, ty)))
            };
            relations.insert(relation, words.filter_map(of_type).flatten().collect());
        }
        relations
    })
}

/// Has each column of the relation of the system catalog told as PostgreSQL tells it. Another relation is left as it is.
pub(crate) fn tell(relation: &str, columns: &mut [OutputColumn]) {
    let relation = relation.strip_prefix("pg_catalog.").unwrap_or(relation);
    let Some(known) = relations().get(relation) else { return };
    for column in columns {
        let own = weir_types::binary::type_number(&column.ty);
        let ty = known.get(column.name.as_str()).copied();
        column.catalog = ty.filter(|ty| ty.0 != own && ty.fits(&column.ty));
    }
}
