//! Checks before loading that the items of a run fit into the memory of this machine.

use super::Ycsb;

/// Bytes of an item in the shards of the most expensive protocol (`e-pci`), including growing tables; RAMP's take 260.
/// The value is one for all items, so its size does not matter: on this machine nothing copies it.
const BYTES_OF_ITEM: u64 = 450;
/// Where nodes are processes, each has a value of its own.
const BYTES_OF_VALUE_HEAD: u64 = 32;

impl Ycsb {
    /// Whether this machine has room for the items; `copied`: for a value of its own for each of them, too.
    ///
    /// # Errors
    /// It has not: how much they need, and how many would fit.
    pub fn check_memory(&self, copied: bool) -> Result<(), (String, String)> {
        free_bytes().map_or(Ok(()), |free| self.check_room(copied, free))
    }

    fn check_room(&self, copied: bool, free: u64) -> Result<(), (String, String)> {
        let value = if copied { BYTES_OF_VALUE_HEAD + u64::from(self.value_bytes) } else { 0 };
        let each = BYTES_OF_ITEM + value;
        let needed = self.items.saturating_mul(each);
        if needed <= free {
            return Ok(());
        }
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        Err((
            format!(
                "items={} need about {:.1} GB of memory, and {:.1} GB are free",
                self.items,
                gigabytes(needed),
                gigabytes(free)
            ),
            format!("choose fewer items: about {} fit, or run on a larger machine", free / each),
        ))
    }
}

/// Available memory of this machine; none if unknown.
fn free_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_items_are_refused_with_what_would_fit() {
        let check = |items, value_bytes, copied, fits: bool| {
            let seen = Ycsb { items, value_bytes, ..Ycsb::default() }.check_room(copied, 10_000_000_000);
            assert_eq!(seen.is_ok(), fits, "{items} of {value_bytes}: {seen:?}");
        };
        check(1_000_000, 1, false, true);
        check(100_000_000, 1, false, false);
        check(1_000_000, 100_000, false, true);
        check(1_000_000, 100_000, true, false);
        let refused = Ycsb { items: 100_000_000, ..Ycsb::default() }.check_room(false, 9_000_000_000);
        let (what, hint) = refused.expect_err("45 GB do not fit into 9");
        assert_eq!(what, "items=100000000 need about 45.0 GB of memory, and 9.0 GB are free");
        assert_eq!(hint, "choose fewer items: about 20000000 fit, or run on a larger machine");
    }
}
