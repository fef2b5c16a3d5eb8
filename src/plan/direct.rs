//! What of a range of a file is moved past the system's cache, and how.
//!
//! Direct reads and writes need aligned offsets, lengths and memory. What of a range is aligned goes directly, to where it belongs
//! if that is aligned too. The ragged ends go through the cache; or, if that is wanted, the range is read from an aligned place
//! before it to one behind it, and what was asked for is copied out.

use crate::sys::file::Alignment;

/// Most bytes that are read at once where they do not belong.
pub const MOST_ASIDE: u64 = 1 << 20;

/// What is moved next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes, through the cache.
    Cached(u64),
    /// So many bytes, directly.
    Direct(u64),
    /// So many bytes are read directly into aligned memory, from so many bytes before the place on.
    Aside {
        /// What comes before the place.
        skip: u64,
        /// All of it, `skip` included.
        len: u64,
    },
}

/// How a file may be moved directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// What must be aligned.
    pub alignment: Alignment,
    /// Ragged ends are read beyond instead of through the cache.
    pub overread: bool,
}

fn down(n: u64, alignment: u64) -> u64 {
    n & !(alignment - 1)
}

/// The next piece of a read of `len` bytes at `start`, at least one, whose memory is at `address` (`None`: nowhere that can be
/// read into).
pub fn read(direct: Direct, start: u64, len: u64, address: Option<usize>) -> Piece {
    let Alignment { memory, offset } = direct.alignment;
    let (skip, whole) = (start - down(start, offset), down(len, offset));
    let in_place = skip == 0 && whole > 0 && address.is_some_and(|address| address as u64 & (memory - 1) == 0);
    let aside = |len: u64| {
        let most = down(MOST_ASIDE, offset).max(offset);
        Piece::Aside { skip, len: len.min(most) }
    };
    if in_place {
        return Piece::Direct(whole);
    }
    if direct.overread {
        return aside((skip + len).div_ceil(offset) * offset);
    }
    match (skip, whole) {
        (0, 0) => Piece::Cached(len),
        (0, _) => aside(whole),
        // Too small to have an aligned part.
        (_, _) if len <= offset - skip => Piece::Cached(len),
        (_, _) => Piece::Cached(offset - skip),
    }
}

/// The next piece of a write of `len` bytes at `start`, at least one, from `address`. What goes directly and what goes through the
/// cache share no page of that: two requests that wrote one page in both ways at the same time could lose bytes.
pub fn write(alignment: Alignment, page: u64, start: u64, len: u64, address: usize) -> Piece {
    let offset = alignment.offset.max(page);
    let skip = start - down(start, offset);
    // The address of the first aligned byte is what matters.
    let aligned =
        (address as u64).wrapping_add(if skip == 0 { 0 } else { offset - skip }) & (alignment.memory - 1) == 0;
    match (skip, down(len, offset)) {
        _ if !aligned => Piece::Cached(len),
        (0, 0) => Piece::Cached(len),
        (0, whole) => Piece::Direct(whole),
        (_, _) if len <= offset - skip => Piece::Cached(len),
        (_, _) => Piece::Cached(offset - skip),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALIGNMENT: Alignment = Alignment { memory: 512, offset: 4096 };
    const PAST: Direct = Direct { alignment: ALIGNMENT, overread: false };
    const OVER: Direct = Direct { alignment: ALIGNMENT, overread: true };

    #[test]
    fn aligned_parts_go_directly_and_ragged_ends_do_not() {
        assert_eq!(read(PAST, 4096, 10_000, Some(512)), Piece::Direct(8192));
        assert_eq!(read(PAST, 4096, 10_000, Some(1)), Piece::Aside { skip: 0, len: 8192 });
        assert_eq!(read(PAST, 4096, 10_000, None), Piece::Aside { skip: 0, len: 8192 });
        assert_eq!(read(PAST, 4000, 10_000, Some(512)), Piece::Cached(96));
        assert_eq!(read(PAST, 4096, 100, Some(512)), Piece::Cached(100));
        assert_eq!(read(PAST, 4000, 50, Some(512)), Piece::Cached(50));
    }

    #[test]
    fn reading_beyond_needs_no_cache() {
        assert_eq!(read(OVER, 4096, 10_000, Some(512)), Piece::Direct(8192));
        assert_eq!(read(OVER, 4096, 100, Some(512)), Piece::Aside { skip: 0, len: 4096 });
        assert_eq!(read(OVER, 4000, 100, Some(512)), Piece::Aside { skip: 4000, len: 8192 });
        assert_eq!(read(OVER, 1, 100 << 20, Some(512)), Piece::Aside { skip: 1, len: 1 << 20 });
    }

    #[test]
    fn a_write_keeps_to_whole_pages() {
        let small = Alignment { memory: 4, offset: 512 };
        assert_eq!(write(small, 4096, 4096, 10_000, 8), Piece::Direct(8192));
        assert_eq!(write(small, 4096, 512, 10_000, 8), Piece::Cached(3584));
        assert_eq!(write(small, 4096, 4096, 10_000, 9), Piece::Cached(10_000));
        assert_eq!(write(small, 4096, 512, 10_000, 9), Piece::Cached(10_000));
        assert_eq!(write(small, 4096, 4096, 4095, 8), Piece::Cached(4095));
    }

    proptest! {
        #[test]
        fn every_byte_is_moved_once_and_direct_pieces_are_aligned(
            start in 0u64..100_000, len in 1u64..(3 << 20), address in 0usize..5000, overread: bool,
            memory in 0u32..13, offset in 9u32..17,
        ) {
            let alignment = Alignment { memory: 1 << memory, offset: 1 << offset };
            let (mut at, end) = (start, start + len);
            let mut pieces = 0;
            while at < end {
                let here = address + (at - start) as usize;
                match read(Direct { alignment, overread }, at, end - at, Some(here)) {
                    Piece::Cached(n) => {
                        prop_assert!(!overread && n > 0 && n < alignment.offset);
                        at += n;
                    }
                    Piece::Direct(n) => {
                        prop_assert!(n > 0 && (at | n) % alignment.offset == 0 && here as u64 % alignment.memory == 0);
                        at += n;
                    }
                    Piece::Aside { skip, len } => {
                        prop_assert!(len > skip && ((at - skip) | len) % alignment.offset == 0);
                        at = (at - skip + len).min(end);
                    }
                }
                prop_assert!(at <= end);
                pieces += 1;
                prop_assert!(pieces < 1000);
            }
            let (mut at, mut pieces) = (start, 0);
            while at < end {
                let here = address + (at - start) as usize;
                match write(alignment, 4096, at, end - at, here) {
                    Piece::Cached(n) => {
                        prop_assert!(n > 0);
                        at += n;
                    }
                    Piece::Direct(n) => {
                        prop_assert!(n > 0 && (at | n) % alignment.offset.max(4096) == 0 && here as u64 % alignment.memory == 0);
                        at += n;
                    }
                    Piece::Aside { .. } => prop_assert!(false, "writes do not read"),
                }
                pieces += 1;
                prop_assert!(at <= end && pieces < 4);
            }
        }
    }
}
