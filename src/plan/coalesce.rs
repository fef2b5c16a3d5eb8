//! Many ranges of one object become requests: near ones share one, and each request knows which of its bytes belong to which
//! range.

use super::{ByteRange, MOST_REQUESTS, request_count, split};
use crate::error::{Error, Result};
use crate::memory;
use std::ops::Range;

/// The most parts of one request: what it takes to note them stays small beside what it takes to send it.
pub const MOST_PARTS: usize = 1024;

/// How ranges are merged.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Ranges at most so many bytes apart share a request; `None`: not even equal ones do.
    pub gap: Option<u64>,
    /// But a request never grows beyond so many bytes by that.
    pub most: u64,
    /// A longer range is cut into requests of so many bytes.
    pub task_size: u64,
}

/// A part of one of the ranges, in one of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which range, by its place among those that were given.
    pub range: u32,
    /// First byte in the object.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub range: ByteRange,
    /// Its parts among [`Plan::parts`].
    pub parts: Range<usize>,
}

/// What becomes of some ranges of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they lie in the requests. Parts of one range are in its order.
    pub parts: Vec<Part>,
    /// They cover the parts from the first to the last.
    pub requests: Vec<Request>,
}

impl Plan {
    /// The parts of a request.
    pub fn parts_of(&self, request: &Request) -> &[Part] {
        &self.parts[request.parts.clone()]
    }
}

/// Plans the requests for these ranges.
///
/// A range that is longer than a task is cut; of what comes of it only the last piece, which is shorter, has others beside it.
/// What lies wholly inside a request costs nothing, and so always goes with it.
///
/// # Errors
/// INVALID_ARGUMENT: they take more requests than can be meant. OUT_OF_MEMORY.
pub fn plan(ranges: &[ByteRange], measure: Measure) -> Result<Plan> {
    let count = |range: &ByteRange| request_count(range.len, measure.task_size);
    let count = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(count(range)));
    let size = measure.task_size;
    if count >= MOST_REQUESTS {
        let words = format!("a batch of {count} requests of at most {size} bytes; more than 2^31 are not possible");
        return Err(Error::invalid(words));
    }
    let what = || format!("to plan the {count} requests of at most {size} bytes of a batch; use a larger task size");
    let mut parts = memory::vec(usize::try_from(count).unwrap_or(usize::MAX), what)?;
    for (number, range) in ranges.iter().enumerate() {
        for piece in split(range.start, range.len, measure.task_size) {
            // As many items as a batch may have.
            let range = u32::try_from(number).unwrap_or(u32::MAX);
            parts.push(Part { range, start: piece.start, len: piece.len });
        }
    }
    let Some(gap) = measure.gap else {
        let single = |(at, part): (usize, &Part)| Request {
            range: ByteRange { start: part.start, len: part.len },
            parts: at..at + 1,
        };
        let mut requests = memory::vec(parts.len(), what)?;
        requests.extend(parts.iter().enumerate().map(single));
        return Ok(Plan { parts, requests });
    };
    // Stable for those that start together, so that a plan follows from its ranges alone. The longest first: what comes after it
    // lies inside.
    parts.sort_unstable_by_key(|part| (part.start, u64::MAX - part.len, part.range));
    let mut requests: Vec<Request> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let end = part.start + part.len;
        if let Some(last) = requests.last_mut().filter(|last| last.parts.len() < MOST_PARTS) {
            let inside = end <= last.range.end();
            let near = part.start <= last.range.end().saturating_add(gap);
            let whole = last.range.len >= measure.task_size || part.len >= measure.task_size;
            if inside || (near && !whole && end - last.range.start <= measure.most) {
                last.range.len = last.range.len.max(end - last.range.start);
                last.parts.end = at + 1;
                continue;
            }
        }
        let range = ByteRange { start: part.start, len: part.len };
        memory::push(&mut requests, Request { range, parts: at..at + 1 }, what)?;
    }
    Ok(Plan { parts, requests })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn measure(gap: Option<u64>) -> Measure {
        Measure { gap, most: 4096, task_size: 4096 }
    }

    fn planned(ranges: &[(u64, u64)], measure: Measure) -> Vec<(u64, u64, Vec<u32>)> {
        let ranges: Vec<ByteRange> = ranges.iter().map(|&(start, len)| ByteRange { start, len }).collect();
        let plan = plan(&ranges, measure).unwrap();
        let shown = |request: &Request| {
            let parts = plan.parts_of(request).iter().map(|part| part.range).collect();
            (request.range.start, request.range.len, parts)
        };
        plan.requests.iter().map(shown).collect()
    }

    /// Case 34.
    #[test]
    fn near_ranges_share_a_request_and_far_ones_do_not() {
        let ranges = [(0, 100), (150, 50), (4096, 10), (4096, 10)];
        assert_eq!(planned(&ranges, measure(Some(64))), [(0, 200, vec![0, 1]), (4096, 10, vec![2, 3])]);
        assert_eq!(
            planned(&ranges, measure(Some(49))),
            [(0, 100, vec![0]), (150, 50, vec![1]), (4096, 10, vec![2, 3])]
        );
        assert_eq!(
            planned(&ranges, measure(None)),
            [(0, 100, vec![0]), (150, 50, vec![1]), (4096, 10, vec![2]), (4096, 10, vec![3])]
        );
    }

    #[test]
    fn adjacent_overlapping_and_contained_ranges_share_one_whatever_their_order() {
        for gap in [0, 1, 1000] {
            assert_eq!(
                planned(&[(200, 100), (0, 100), (100, 100), (50, 100), (60, 10)], measure(Some(gap))),
                [(0, 300, vec![1, 3, 4, 2, 0])]
            );
        }
    }

    #[test]
    fn a_request_does_not_outgrow_its_measure_and_long_ranges_are_cut() {
        let small = |gap, most, task_size| Measure { gap: Some(gap), most, task_size };
        assert_eq!(planned(&[(0, 60), (60, 60)], small(0, 100, 1000)), [(0, 60, vec![0]), (60, 60, vec![1])]);
        assert_eq!(
            planned(&[(0, 250), (250, 10), (300, 100)], small(50, 1000, 100)),
            [(0, 100, vec![0]), (100, 100, vec![0]), (200, 60, vec![0, 1]), (300, 100, vec![2])],
            "whole tasks stay alone, and what is left of one does not"
        );
        assert_eq!(
            planned(&[(0, 250), (0, 250), (110, 20)], small(0, 10, 100)),
            [(0, 100, vec![0, 1]), (100, 100, vec![0, 1, 2]), (200, 50, vec![0, 1])],
            "what is inside costs nothing"
        );
    }

    #[test]
    fn a_request_has_so_many_parts_and_no_more() {
        let ranges = vec![(7, 3); MOST_PARTS + 1];
        let lens: Vec<usize> = planned(&ranges, measure(Some(0))).iter().map(|(_, _, parts)| parts.len()).collect();
        assert_eq!(lens, [MOST_PARTS, 1]);
    }

    #[test]
    fn more_requests_than_can_be_meant_are_refused() {
        let ranges = [ByteRange { start: 0, len: 1 << 31 }, ByteRange { start: 7, len: 1 }];
        for ranges in [&ranges[..], &ranges[..1]] {
            let error = plan(ranges, Measure { gap: None, most: 1, task_size: 1 }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }

    fn ranges() -> impl Strategy<Value = Vec<ByteRange>> {
        let near = (0u64..4000, 1u64..300).prop_map(|(start, len)| ByteRange { start, len });
        let far = (0u64..i64::MAX as u64 - (1 << 40), 1u64..2000).prop_map(|(start, len)| ByteRange { start, len });
        vec(prop_oneof![8 => near, 1 => far], 0..200)
    }

    fn measures() -> impl Strategy<Value = Measure> {
        let gap = prop_oneof![Just(None), Just(Some(u64::MAX)), (0u64..500).prop_map(Some)];
        (gap, 1u64..3000, 1u64..3000).prop_map(|(gap, most, task_size)| Measure { gap, most, task_size })
    }

    proptest! {
        #[test]
        fn every_byte_of_every_range_is_in_exactly_one_place(ranges in ranges(), measure in measures()) {
            let plan = plan(&ranges, measure).unwrap();
            let mut next: Vec<u64> = ranges.iter().map(|range| range.start).collect();
            let mut parts = 0;
            for request in &plan.requests {
                prop_assert_eq!(request.parts.start, parts, "each part is in one request, in order");
                parts = request.parts.end;
                for part in plan.parts_of(request) {
                    prop_assert!(part.len > 0);
                    prop_assert_eq!(part.start, next[part.range as usize], "in order, nothing twice, nothing left out");
                    next[part.range as usize] += part.len;
                    prop_assert!(request.range.start <= part.start && part.start + part.len <= request.range.end());
                }
            }
            prop_assert_eq!(parts, plan.parts.len());
            for (range, next) in ranges.iter().zip(next) {
                prop_assert_eq!(next, range.end());
            }
        }

        #[test]
        fn no_request_asks_for_more_than_it_may(ranges in ranges(), measure in measures()) {
            let plan = plan(&ranges, measure).unwrap();
            for request in &plan.requests {
                let parts = plan.parts_of(request);
                prop_assert!(!parts.is_empty() && parts.len() <= MOST_PARTS);
                prop_assert!(parts.windows(2).all(|two| two[0].start <= two[1].start));
                prop_assert!(measure.gap.is_some() || parts.len() == 1);
                let longest = parts.iter().map(|part| part.len).max().unwrap_or(0);
                prop_assert!(longest <= measure.task_size);
                prop_assert!(request.range.len <= measure.most.max(longest));
                let (mut end, mut gap) = (request.range.start, 0);
                for part in parts {
                    gap = gap.max(part.start.saturating_sub(end));
                    end = end.max(part.start + part.len);
                }
                prop_assert_eq!(end, request.range.end(), "nothing is asked for behind the last");
                prop_assert!(gap <= measure.gap.unwrap_or(0), "a gap of {} bytes", gap);
            }
        }

        #[test]
        fn the_order_in_which_ranges_are_given_changes_no_request(
            ranges in ranges(), measure in measures(), seed in any::<u64>()
        ) {
            prop_assume!(measure.gap.is_some());
            let asked = |ranges: &[ByteRange]| -> Vec<ByteRange> {
                plan(ranges, measure).unwrap().requests.iter().map(|request| request.range).collect()
            };
            let mut shuffled = ranges.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            prop_assert_eq!(asked(&ranges), asked(&shuffled));
        }

        #[test]
        fn ranges_that_may_share_a_request_do(ranges in ranges(), measure in measures()) {
            let Some(gap) = measure.gap else { return Ok(()) };
            let plan = plan(&ranges, measure).unwrap();
            for two in plan.requests.windows(2) {
                let (first, second) = (&two[0], plan.parts_of(&two[1])[0]);
                let end = second.start + second.len;
                let near = second.start <= first.range.end().saturating_add(gap);
                let fits = end - first.range.start <= measure.most;
                let whole = first.range.len >= measure.task_size || second.len >= measure.task_size;
                let full = first.parts.len() == MOST_PARTS;
                let inside = end <= first.range.end();
                prop_assert!(full || (!inside && (!near || !fits || whole)), "{:?} {:?}", first, second);
            }
        }
    }
}
