//! Datagrams that are lost by chance: a share of them, from a seed.

use weir_ordered_net::transport::Loss;

/// Says of each datagram that a party receives whether it is lost. None: no datagram is.
pub fn loss(share: f64, seed: u64) -> Option<Loss> {
    if share <= 0.0 {
        return None;
    }
    let least = (share.min(1.0) * 2f64.powi(64)) as u64;
    let mut state = seed;
    Some(Box::new(move || next(&mut state) < least))
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn the_share_is_kept_and_the_seed_decides() {
        let lost = |seed| {
            let mut loses = loss(0.01, seed).unwrap();
            (0..100_000).filter(|_| loses()).collect::<Vec<_>>()
        };
        assert!((800..1_200).contains(&lost(1).len()), "{}", lost(1).len());
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
        assert!(loss(0.0, 1).is_none());
    }
}
