//! The normal case, without faults.

use crate::world::World;
use crate::world::profile::Profile;

#[test]
fn without_faults_nothing_is_lost_and_no_view_changes() {
    for seed in 0..5 {
        let profile = Profile::calm();
        let counts = World::new(seed, profile).run().unwrap_or_else(|violation| panic!("{violation:?}"));
        assert_eq!(counts.answered, profile.clients * u64::from(profile.transactions) + 1);
        assert_eq!((counts.dropped, counts.found, counts.views, counts.epochs), (0, 0, 0, 1));
    }
}
