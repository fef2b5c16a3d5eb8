//! What the objects hold: every byte depends on the object and on its place, so no byte of another is mistaken for it.

use raskio_testserver::{Body, Object};

/// Each read has a part of the object to itself, so that the server knows a request's read by its range.
pub const WINDOW: u64 = 4 << 20;

/// A 64-bit mix (splitmix64's).
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A source of chance for one purpose: the same for the same seed and names.
pub fn rng(seed: u64, names: &[u64]) -> fastrand::Rng {
    fastrand::Rng::with_seed(names.iter().fold(mix(seed), |state, name| mix(state ^ mix(*name))))
}

/// The bytes of `object` from `offset` on.
pub fn fill(object: u32, offset: u64, out: &mut [u8]) {
    let salt = mix(u64::from(object) + 1);
    let word = |index: u64| mix(salt ^ index).to_le_bytes();
    let (mut at, mut out) = (offset, out);
    while !out.is_empty() {
        let skip = (at % 8) as usize;
        let n = out.len().min(8 - skip);
        let (now, later) = out.split_at_mut(n);
        now.copy_from_slice(&word(at / 8)[skip..skip + n]);
        (at, out) = (at + n as u64, later);
    }
}

/// `object` as the servers have it.
pub fn object(object: u32, size: u64) -> Object {
    let body = Body::generated(size, move |offset, out| fill(object, offset, out));
    Object::new(body).etag(&etag(object))
}

/// Its entity tag.
pub fn etag(object: u32) -> String {
    format!("\"soak-{object}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_same_bytes_wherever_it_begins() {
        let mut whole = [0; 100];
        fill(3, 1000, &mut whole);
        for from in 0..20 {
            let mut part = [0; 50];
            fill(3, 1000 + from as u64, &mut part);
            assert_eq!(part, whole[from..from + 50]);
        }
        let mut other = [0; 100];
        fill(4, 1000, &mut other);
        assert_ne!(whole, other);
    }
}
