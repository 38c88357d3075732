//! Checks that the modules of `weir-txn` import in one direction, as drawn in docs/internals/house.md, and that some crates are built
//! without PostgreSQL's grammar.
//!
//! Reads paths of the source text, and manifests. Circles within one module are none of its business.

use std::path::Path;

/// The document with the drawing, and the heading above it.
const HOUSE: &str = "docs/internals/house.md";
const HEADING: &str = "## Layers of `weir-txn`";

const SOURCES: &str = "crates/weir-txn/src/";

/// Crates without the grammar: among those of the workspace they depend on each other only.
const WITHOUT_GRAMMAR: [&str; 20] = [
    "weir-types",
    "weir-observe",
    "weir-core",
    "weir-kv",
    "weir-net",
    "weir-server",
    "weir-baselines",
    "weir-ordered",
    "weir-ordered-net",
    "weir-raft",
    "weir-ordered-raft",
    "weir-ordered-bench",
    "weir-ordered-scale",
    "weir-conveyor",
    "weir-conveyor-net",
    "weir-conveyor-scale",
    "weir-cat",
    "weir-harness",
    "weir-cat-bench",
    "weir-reproduce",
];

/// Dependencies on the grammar, where there may be none.
pub fn dependencies(root: &Path) -> Vec<String> {
    let of = |name: &&str| {
        let file = format!("crates/{name}/Cargo.toml");
        let manifest = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
        let wrong = with_grammar(&manifest).map(|other| {
            format!(
                "{file}: depends on {other}, which is not one of the crates without the grammar ({HOUSE})"
            )
        });
        wrong.collect::<Vec<_>>()
    };
    WITHOUT_GRAMMAR.iter().flat_map(of).collect()
}

/// Dependencies of a manifest, but for tests, on other crates of the workspace than those without the grammar, or on the grammar itself.
fn with_grammar(manifest: &str) -> impl Iterator<Item = &str> {
    let mut section = "";
    let names = manifest.lines().filter_map(move |line| {
        section = line.strip_prefix('[').unwrap_or(section);
        let is_built = section.ends_with("dependencies]") && !section.contains("dev-dependencies");
        let name = line.split(['.', ' ', '=']).next().filter(|_| is_built)?;
        (name.starts_with("weir-") || name.starts_with("pg_")).then_some(name)
    });
    names.filter(|name| !WITHOUT_GRAMMAR.contains(name))
}

/// Imports against the direction, and modules that are not drawn.
pub fn complaints(root: &Path, files: &[String]) -> Vec<String> {
    let drawn = std::fs::read_to_string(root.join(HOUSE)).unwrap_or_default();
    let layers = Layers::drawn(&drawn);
    if layers.0.is_empty() {
        return vec![format!("{HOUSE}: no layers below `{HEADING}`")];
    }
    let sources = files.iter().filter(|file| file.starts_with(SOURCES) && file.ends_with(".rs"));
    sources
        .flat_map(|file| {
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            layers.complaints(file, &text)
        })
        .collect()
}

/// Modules at the root of the crate by layer, the highest first.
struct Layers(Vec<Vec<String>>);

impl Layers {
    /// Reads the drawing: below the heading, one line for each layer, which begins with its modules.
    fn drawn(text: &str) -> Layers {
        let below = text.split_once(HEADING).map_or("", |(_, below)| below);
        let lines = below.lines().skip_while(|line| !line.starts_with("    "));
        let layer = |line: &str| -> Vec<String> {
            let names = line.trim().split("  ").next().unwrap_or_default();
            names.split(", ").map(|name| name.trim_end_matches('/').to_owned()).collect()
        };
        Layers(lines.take_while(|line| line.starts_with("    ")).map(layer).collect())
    }

    fn height_of(&self, module: &str) -> Option<usize> {
        let at = self.0.iter().position(|layer| layer.iter().any(|one| one == module))?;
        Some(self.0.len() - at)
    }

    fn complaints(&self, file: &str, text: &str) -> Vec<String> {
        let path = file.strip_prefix(SOURCES).unwrap_or(file);
        let modules = modules_of(path);
        let Some(own) = modules.first().filter(|_| !is_test(path)) else { return Vec::new() };
        let Some(height) = self.height_of(own) else {
            return vec![format!("{file}: {HOUSE} does not draw `{own}`")];
        };
        let mut complaints = Vec::new();
        for (line, module) in imports_of(&code_of(text), modules.len()) {
            // What is no module of the crate's root is an item of it, and the compiler knows.
            let is_below = module == *own || self.height_of(&module).is_none_or(|other| other < height);
            if !is_below {
                complaints.push(format!(
                    "{file}:{line}: `{own}` imports `{module}`, which is not below it ({HOUSE})"
                ));
            }
        }
        complaints
    }
}

/// Path of the module that a file has.
fn modules_of(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { Vec::new() } else { path.split('/').collect() }
}

pub fn is_test(path: &str) -> bool {
    modules_of(path).iter().any(|module| *module == "tests" || module.ends_with("_tests"))
}

/// The text without comments and unit tests; lines stay where they are.
pub fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    let mut is_test = false;
    while let Some(line) = lines.next() {
        let begins = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.starts_with("mod ") && next.ends_with('{'));
        is_test = (is_test || begins) && line != "}";
        if !is_test {
            code.push_str(line.split("//").next().unwrap_or_default());
        }
        code.push('\n');
    }
    code
}

/// Modules at the root of the crate that the code names, each with its line. `depth`: number of modules around the code.
fn imports_of(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut imports = Vec::new();
    let supers = "super::".repeat(depth);
    for from in ["crate::", &supers] {
        for (at, _) in code.match_indices(from) {
            let is_whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c));
            if is_whole {
                let line = code[..at].matches('\n').count() + 1;
                imports.extend(heads_of(&code[at + from.len()..]).map(|head| (line, head.to_owned())));
            }
        }
    }
    imports
}

/// First names of the paths that a path continues with: one, or those of a group in braces.
fn heads_of(rest: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let group = rest.strip_prefix('{').map(|group| {
        let end = group.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        });
        &group[..end.unwrap_or(group.len())]
    });
    let mut within = 0;
    let split = move |c: char| {
        within += i32::from(c == '{') - i32::from(c == '}');
        group.is_some() && within == 0 && c == ','
    };
    let head =
        |path: &str| -> usize { path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len()) };
    let paths = group.unwrap_or(rest).split(split).map(str::trim_start);
    paths.map(move |path| &path[..head(path)]).filter(|head| !head.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWING: &str = "# House\n\n## Layers of `weir-txn`\n\nEach imports what is below.\n\n    \
        shard/          the shard\n    ramp/, other    coordinators\n    exec/           SQL\n    \
        message/        messages\n\nOver.\n\n    not/ drawn\n";

    /// Lines of complaints about a file of that name.
    fn found(file: &str, text: &str) -> Vec<String> {
        let complaints = Layers::drawn(DRAWING).complaints(&format!("{SOURCES}{file}"), text);
        let place =
            complaints.into_iter().map(|one| one.split(", which").next().unwrap_or_default().to_owned());
        place.map(|one| one.trim_start_matches(SOURCES).to_owned()).collect()
    }

    #[test]
    fn the_drawing_is_read() {
        let drawn = Layers::drawn(DRAWING);
        assert_eq!(drawn.0, [vec!["shard"], vec!["ramp", "other"], vec!["exec"], vec!["message"]]);
        assert!(Layers::drawn("# House\n").0.is_empty());
    }

    #[test]
    fn imports_of_what_is_below_are_no_complaint() {
        let text = "use crate::exec::{call, write};\nuse crate::message::Call;\nuse super::reader::Read;\n\
            use crate::ramp::waits::Waits;\nuse std::fmt;\nfn f() { crate::message::told() }\n";
        assert!(found("ramp/client.rs", text).is_empty());
        assert!(found("lib.rs", "pub use crate::shard::Node;\n").is_empty());
    }

    #[test]
    fn a_planted_import_of_what_is_above_is_found() {
        for (file, text, expected) in [
            ("exec/call.rs", "use crate::shard::Node;\n", "exec/call.rs:1: `exec` imports `shard`"),
            ("exec/mod.rs", "\nuse super::ramp::Trace;\n", "exec/mod.rs:2: `exec` imports `ramp`"),
            (
                "exec/call/a.rs",
                "use super::super::super::ramp::A;\n",
                "exec/call/a.rs:1: `exec` imports `ramp`",
            ),
            ("message.rs", "fn f() -> crate::exec::A {}\n", "message.rs:1: `message` imports `exec`"),
            ("ramp/client.rs", "use crate::other::A;\n", "ramp/client.rs:1: `ramp` imports `other`"),
            (
                "exec/call.rs",
                "use crate::{\n    message::{Call, Reply},\n    shard,\n};\n",
                "exec/call.rs:1: `exec` imports `shard`",
            ),
        ] {
            assert_eq!(found(file, text), [expected], "{text}");
        }
    }

    #[test]
    fn a_module_that_is_not_drawn_is_found() {
        let complaint = format!("new.rs: {HOUSE} does not draw `new`");
        assert_eq!(found("new.rs", "fn f() {}\n"), [complaint]);
    }

    #[test]
    fn a_planted_dependency_on_the_grammar_is_found() {
        let manifest = "[package]\nname = \"weir-net\"\n\n[dependencies]\nserde = \"1\"\nweir-core.workspace = true\n\n\
            [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n\n[dev-dependencies]\nweir-sql.workspace = true\n";
        assert_eq!(with_grammar(manifest).count(), 0);
        let planted = manifest.replace("serde = \"1\"", "weir-txn.workspace = true\npg_query = \"6\"");
        assert!(with_grammar(&planted).eq(["weir-txn", "pg_query"]));
        let planted = manifest.replace("libc", "weir-sql");
        assert!(with_grammar(&planted).eq(["weir-sql"]));
    }

    #[test]
    fn comments_and_tests_are_left_out() {
        let text = "//! See [`crate::shard::Node`].\nfn f() {} // crate::ramp::A\n\n#[cfg(test)]\nmod tests {\n    \
            use crate::shard::Node;\n}\n";
        assert!(found("message/mod.rs", text).is_empty());
        assert_eq!(found("message/mod.rs", &format!("{text}use crate::exec::A;\n")).len(), 1);
        assert!(found("exec/tests.rs", "use crate::shard::Node;\n").is_empty());
    }
}
