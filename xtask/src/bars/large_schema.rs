//! A schema as large as big applications have, and procedures that work on it: what `weir analyze` must take.
//!
//! Made from a number, the same text on every machine. Tables come in modules, as in real schemas: each refers to
//! tables of its own module, and to a few that the whole application shares and that everybody writes.

use std::fmt::Write as _;
use std::path::Path;

/// Tables of one module, its root included.
const MODULE: usize = 20;
/// Tables that every module refers to and writes.
const SHARED: [&str; 4] = ["tenant", "app_user", "ledger", "audit_log"];

pub struct Size {
    pub tables: usize,
    pub procedures: usize,
}

/// Writes `schema.sql` and `procedures.sql` into the directory.
pub fn write(directory: &Path, size: &Size) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("schema.sql"), schema(size.tables))?;
    std::fs::write(directory.join("procedures.sql"), procedures(size))
}

/// Writes an application whose partitioning is hard: every procedure shares a table with each of several others, and
/// what routes the one pair to one server tears another pair apart.
pub fn write_tangled(directory: &Path, procedures: usize, parameters: usize) -> std::io::Result<()> {
    const PARTNERS: usize = 5;
    let mut schema = String::new();
    let mut bodies = vec![String::new(); procedures];
    for procedure in 0..procedures {
        let mut chance = Chance(31 * procedure as u64 + 17);
        for partner in 0..PARTNERS {
            let table = procedure * PARTNERS + partner;
            let _ = writeln!(schema, "CREATE TABLE t{table} (id bigint PRIMARY KEY, v bigint NOT NULL);");
            for who in [procedure, chance.below(procedures)] {
                let by = chance.below(parameters);
                let _ = writeln!(bodies[who], "    UPDATE t{table} SET v = v + 1 WHERE id = p{by};");
            }
        }
    }
    let list: Vec<String> = (0..parameters).map(|at| format!("p{at} bigint")).collect();
    let mut text = String::new();
    for (procedure, body) in bodies.iter().enumerate() {
        let list = list.join(", ");
        let _ = writeln!(
            text,
            "CREATE PROCEDURE q{procedure}({list}) LANGUAGE plpgsql AS $$\nBEGIN\n{body}END;\n$$;"
        );
    }
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("schema.sql"), schema)?;
    std::fs::write(directory.join("procedures.sql"), text)
}

/// SplitMix64: enough to scatter, and the same for ever.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The table's parent: an earlier one of its module; the module's root has none.
fn parent(table: usize) -> Option<usize> {
    let (module, at) = (table / MODULE, table % MODULE);
    let earlier = Chance(table as u64).below(at.max(1));
    (at > 0).then(|| module * MODULE + earlier)
}

fn schema(tables: usize) -> String {
    let mut text = String::from(
        "CREATE TABLE tenant (id bigint PRIMARY KEY, name text NOT NULL UNIQUE,\n    \
         activity bigint NOT NULL DEFAULT 0, balance bigint NOT NULL DEFAULT 0 CHECK (balance >= 0));\n\
         CREATE TABLE app_user (id bigint PRIMARY KEY, tenant_id bigint NOT NULL REFERENCES tenant (id),\n    \
         email text NOT NULL, logins integer NOT NULL DEFAULT 0, UNIQUE (tenant_id, email));\n\
         CREATE TABLE ledger (id bigserial PRIMARY KEY, tenant_id bigint NOT NULL REFERENCES tenant (id),\n    \
         booked bigint NOT NULL CHECK (booked <> 0), booked_at timestamp NOT NULL);\n\
         CREATE TABLE audit_log (id bigserial PRIMARY KEY, user_id bigint NOT NULL, what text NOT NULL,\n    \
         at timestamp NOT NULL);\n\
         CREATE INDEX audit_log_user ON audit_log (user_id);\n",
    );
    for table in 0..tables.saturating_sub(SHARED.len()) {
        let mut chance = Chance(7 * table as u64 + 1);
        let name = format!("t{table}");
        let _ = write!(
            text,
            "CREATE TABLE {name} (\n    id bigint PRIMARY KEY,\n    \
             tenant_id bigint NOT NULL REFERENCES tenant (id),\n    code text NOT NULL,\n    \
             status integer NOT NULL DEFAULT 0 CHECK (status BETWEEN 0 AND 9),\n    \
             quantity integer NOT NULL DEFAULT 0 CHECK (quantity >= 0),\n    \
             capacity integer NOT NULL DEFAULT 100,\n    created_at timestamp NOT NULL"
        );
        if let Some(parent) = parent(table) {
            let action = ["", "", " ON DELETE CASCADE", " ON DELETE SET NULL"][chance.below(4)];
            let null = if action.ends_with("NULL") { "" } else { " NOT NULL" };
            let _ = write!(text, ",\n    parent_id bigint{null} REFERENCES t{parent} (id){action}");
        }
        if chance.one_in(3) {
            text.push_str(",\n    UNIQUE (tenant_id, code)");
        }
        if chance.one_in(3) {
            text.push_str(",\n    CHECK (quantity <= capacity)");
        }
        text.push_str("\n);\n");
        if table % MODULE > 0 {
            let _ = writeln!(text, "CREATE INDEX {name}_parent ON {name} (parent_id);");
        }
        if chance.one_in(2) {
            let _ = writeln!(text, "CREATE INDEX {name}_created ON {name} (tenant_id, created_at);");
        }
    }
    text
}

fn procedures(size: &Size) -> String {
    let own = size.tables.saturating_sub(SHARED.len());
    let mut text = String::new();
    for procedure in 0..size.procedures {
        let mut chance = Chance(1_000_003 * (procedure as u64 + 1));
        let module = procedure * own.div_ceil(MODULE) / size.procedures.max(1);
        let tables: Vec<usize> = (0..MODULE).map(|at| module * MODULE + at).filter(|&t| t < own).collect();
        let _ = write!(
            text,
            "CREATE PROCEDURE p{procedure}(owner bigint, who bigint, item bigint, other bigint, amount integer, \
             word text, moment timestamp)\nLANGUAGE plpgsql AS $$\nDECLARE\n    found_status integer;\n    \
             found_quantity integer;\nBEGIN\n    IF amount <= 0 THEN RAISE EXCEPTION 'amount must be positive'; \
             END IF;\n"
        );
        // Two or more of the module's tables, and some that everybody shares.
        for _ in 0..2 + chance.below(5) {
            let table = tables[chance.below(tables.len())];
            statement(&mut text, &mut chance, table);
        }
        text.push_str(
            "    UPDATE tenant SET activity = activity + 1 WHERE id = owner;\n    \
             INSERT INTO audit_log (user_id, what, at) VALUES (who, word, moment);\n",
        );
        for _ in 0..2 + chance.below(3) {
            text.push_str(shared(chance.below(8)));
        }
        text.push_str("END;\n$$;\n");
    }
    text
}

/// Statements of the procedures of all modules on shared tables.
fn shared(which: usize) -> &'static str {
    match which {
        0 => "    UPDATE tenant SET balance = balance - amount WHERE id = owner;\n",
        1 => "    INSERT INTO ledger (tenant_id, booked, booked_at) VALUES (owner, amount, moment);\n",
        2 => "    UPDATE app_user SET logins = logins + 1 WHERE id = who;\n",
        3 => {
            "    UPDATE app_user SET email = word WHERE tenant_id = owner AND id = who AND logins IN (1, 2, 3, 4);\n"
        }
        4 => {
            "    DELETE FROM ledger WHERE tenant_id = owner AND (booked = item OR booked = other OR booked_at < moment);\n"
        }
        5 => {
            "    SELECT count(*) INTO found_quantity FROM ledger JOIN tenant ON tenant.id = ledger.tenant_id\n     \
             WHERE tenant.name = word AND ledger.booked_at >= moment;\n"
        }
        6 => {
            "    UPDATE ledger SET booked = booked + item WHERE tenant_id IN (SELECT tenant_id FROM app_user \
             WHERE app_user.id = who);\n"
        }
        _ => {
            "    UPDATE tenant SET balance = balance + amount WHERE id = (SELECT tenant_id FROM app_user WHERE id = who);\n"
        }
    }
}

fn statement(text: &mut String, chance: &mut Chance, table: usize) {
    let _ = match chance.below(8) {
        0 => writeln!(
            text,
            "    SELECT status, quantity INTO found_status, found_quantity FROM t{table} WHERE id = item;"
        ),
        1 => writeln!(
            text,
            "    SELECT count(*) INTO found_quantity FROM t{table} WHERE tenant_id = owner AND status IN (1, 2, 3);"
        ),
        2 => writeln!(text, "    UPDATE t{table} SET quantity = quantity + amount WHERE id = item;"),
        3 => writeln!(
            text,
            "    UPDATE t{table} SET quantity = quantity - amount WHERE id = other AND tenant_id = owner;"
        ),
        4 => writeln!(text, "    UPDATE t{table} SET status = 3, code = word WHERE id = item;"),
        5 => writeln!(
            text,
            "    IF amount > 10 THEN\n        DELETE FROM t{table} WHERE id = other AND tenant_id = owner;\n    END IF;"
        ),
        6 => writeln!(
            text,
            "    UPDATE t{table} SET capacity = capacity + amount WHERE tenant_id = owner AND (code = word OR id = item);"
        ),
        _ => match parent(table) {
            Some(_) => writeln!(
                text,
                "    INSERT INTO t{table} (id, tenant_id, code, created_at, parent_id) VALUES (item, owner, word, moment, other);"
            ),
            None => writeln!(
                text,
                "    INSERT INTO t{table} (id, tenant_id, code, created_at) VALUES (item, owner, word, moment);"
            ),
        },
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_large_as_asked_and_always_the_same() {
        let size = Size { tables: 100, procedures: 50 };
        let (schema, procedures) = (schema(size.tables), procedures(&size));
        assert_eq!(schema.matches("CREATE TABLE").count(), size.tables);
        assert_eq!(procedures.matches("CREATE PROCEDURE").count(), size.procedures);
        assert_eq!(procedures, super::procedures(&size));
    }
}
