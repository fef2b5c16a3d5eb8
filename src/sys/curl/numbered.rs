//! Maps by numbers that are counted or hashed here: nobody outside chooses them, so that they need no defence against collisions, which
//! costs 200 instructions a look-up, four times a request.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from such numbers.
pub type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Spreads neighbours over all bits (multiplication by 2^64 over the golden ratio, after Knuth).
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        // The map takes the lowest bits, and the product's highest are the best mixed.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn neighbours_and_multiples_are_spread() {
        let build = BuildHasherDefault::<Spread>::default();
        for step in [1u64, 2, 64, 4096] {
            let hashes = || (0..1024u64).map(|n| build.hash_one(n * step));
            // 1,024 numbers thrown at random into 1,024 places fill 647 of them; into the map's 128 tags, all.
            let places: HashSet<u64> = hashes().map(|hash| hash & 1023).collect();
            let tags: HashSet<u64> = hashes().map(|hash| hash >> 57).collect();
            assert!(places.len() > 500 && tags.len() > 100, "{step}: {} places, {} tags", places.len(), tags.len());
        }
    }
}
