//! Pages of HTML in one file: without scripts, and with nothing from elsewhere.

use std::fmt::Write as _;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:84rem;padding:0 1rem;color:#1b1b1b;background:#fff}\
table{border-collapse:collapse;margin:1rem 0}td,th{border-bottom:1px solid #ccc;padding:.25rem .75rem;text-align:left;vertical-align:top}\
svg{max-width:100%;height:auto}.reproduced{color:#1a6b3c}.exceeded{color:#005ab5;font-weight:600}.not-reached{color:#a02828;font-weight:600}\
.note{color:#555;max-width:60rem}h2{margin-top:3rem}";

/// The page up to its heading.
pub fn head(title: &str, heading: &str) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    let _ = write!(
        page,
        "<title>{}</title><style>{STYLE}</style></head>\n<body>\n<h1>{}</h1>\n",
        escaped(title),
        escaped(heading)
    );
    page
}

/// End of the page.
pub const FOOT: &str = "</body></html>\n";

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A table; texts are escaped.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table>{}{rows}</table>\n", row(&header, "th"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let page = head("a", "1 < 2") + &table(&["<x>"], &[vec!["\"&".to_owned()]]) + FOOT;
        assert!(page.contains("<h1>1 &lt; 2</h1>") && page.contains("<th>&lt;x&gt;</th>"));
        assert!(page.contains("<td>&quot;&amp;</td>"));
    }
}
