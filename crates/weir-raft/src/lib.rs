//! Members of replica groups: Raft by the crate `raft`, disks that were lost, and the lease of a leader
//! (docs/internals/replica-groups.md); and the parts that the failure coordinator's nodes use, too (weir-ordered-raft).
//!
//! Nothing here has a clock, a socket, a thread or randomness of its own, or looks into the data of an entry.

mod config;
pub mod conversion;
mod faults;
mod founding;
mod lease;
mod member;
pub mod message;
mod store;

pub use config::config_of;
pub use faults::{MemberBugs, MemberFaults};
pub use member::{CheckpointHead, Event, Member, MemberRecord, Settings, Standing, TICK_MS};
pub use store::{HardState, Record, State, Store};
pub use weir_core::faults::NoFaults;

/// Place of a member in the list of its group's members.
pub type Place = u8;

/// Bits of a member's id that say its place, from 1 on; the others are those of its disk.
const PLACE_BITS: u32 = 8;

/// Largest id of a disk.
pub const DISK_MAX: u64 = u64::MAX >> PLACE_BITS;

/// Id in Raft of the member at that place with that disk.
pub fn id_of(place: Place, disk: u64) -> u64 {
    (disk & DISK_MAX) << PLACE_BITS | (u64::from(place) + 1)
}

/// Place of the member with that id. None: it is no id of a member.
pub fn place_of(id: u64) -> Option<Place> {
    let low = id & ((1 << PLACE_BITS) - 1);
    Place::try_from(low.checked_sub(1)?).ok()
}
