//! Migrations with their own undoing in the same file: the undoing is cut out.

/// The text with every "down" part turned into blanks, so that all places stay: goose, sql-migrate and
/// dbmate mark the parts with comments.
pub(crate) fn without_down(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut down = false;
    for line in text.split_inclusive('\n') {
        match marker(line) {
            Some(direction) => down = direction,
            None if down => {
                out.extend(
                    line.bytes().map(|byte| if byte == b'\n' || byte == b'\r' { byte as char } else { ' ' }),
                );
                continue;
            }
            None => {}
        }
        out.push_str(line);
    }
    out
}

/// `Some(true)` where a down part begins, `Some(false)` where an up part does.
fn marker(line: &str) -> Option<bool> {
    let comment = line.trim().strip_prefix("--")?.trim().to_ascii_lowercase();
    let mut words = comment.split_whitespace();
    let direction = match words.next()? {
        "+goose" | "+migrate" => words.next()?,
        "migrate:up" => "up",
        "migrate:down" => "down",
        _ => return None,
    };
    match direction {
        "up" => Some(false),
        "down" => Some(true),
        _ => None,
    }
}
