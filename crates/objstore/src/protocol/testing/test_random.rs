//! A small seeded generator for the protocol's tests. `ATOLL_SEED=n` repeats a run; the seed is printed.

pub(crate) struct Random {
    pub(crate) seed: u64,
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d }
    }

    /// A generator with the seed in `ATOLL_SEED`, or else with a fresh one. Prints the seed.
    pub(crate) fn from_environment(test: &str) -> Self {
        let fresh = || std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.subsec_nanos().into());
        let seed = std::env::var("ATOLL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(fresh);
        eprintln!("{test}: ATOLL_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number from 0 to `bound` - 1; 0 when `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}
