//! What each read does: a function of the seed and its number.

use crate::data::{WINDOW, rng};
use std::time::Duration;

/// Objects on the two servers.
pub const OBJECTS: u32 = 48;
/// The largest read.
const MOST: u64 = 2 << 20;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read.
    Read,
    /// Asks for the size.
    Stat,
    /// A read behind the end of an object whose size is not known yet.
    Beyond,
    /// A read from a port that refuses connections.
    Refused,
    /// A read from an address that never answers a connect.
    BlackHole,
}

/// Whether and when it is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Not.
    Never,
    /// Right after it was submitted.
    AtOnce,
    /// So much later.
    After(Duration),
    /// From inside the next completion of another read.
    FromCallback,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is done.
    pub kind: Kind,
    /// Of which object.
    pub object: u32,
    /// It opens the object for itself, so nothing is known of it.
    pub fresh: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes a request; `None`: the client's.
    pub task_size: Option<u64>,
    /// Its deadline.
    pub deadline: Option<Duration>,
    /// Its cancellation.
    pub cancel: Cancel,
    /// Every one of its requests meets the same fault.
    pub cursed: bool,
}

impl Plan {
    /// Operation `id` of a run over objects of `object_size` bytes.
    pub fn new(seed: u64, id: u64, object_size: u64) -> Plan {
        let mut rng = rng(seed, &[1, id]);
        let per_mille = rng.u32(0..1000);
        let kind = match per_mille {
            0..=19 => Kind::Stat,
            20 | 21 => Kind::Beyond,
            22 => Kind::Refused,
            23 if rng.bool() => Kind::BlackHole,
            _ => Kind::Read,
        };
        let size = match rng.u32(0..1000) {
            0..=9 => 0,
            10..=849 => log_uniform(&mut rng, 1, 64 << 10),
            _ => log_uniform(&mut rng, 64 << 10, MOST),
        };
        let size = if kind == Kind::Read { size } else { size.clamp(1, 64 << 10) };
        // Never the first byte of the object: a 200 with the whole of it would be a right answer.
        let offset = match kind {
            Kind::Beyond => object_size + rng.u64(0..1000),
            _ => id * WINDOW + 1 + rng.u64(0..WINDOW - size),
        };
        let requests = if rng.u32(0..10) < 6 { 1 } else { rng.u64(1..=16) };
        let task_size = (kind == Kind::Read && requests > 1 && size > 1).then(|| size.div_ceil(requests));
        let deadline = match rng.u32(0..100) {
            0 | 1 => Some(Duration::from_micros(rng.u64(500..50_000))),
            2..=11 => Some(Duration::from_secs(45)),
            _ => None,
        };
        let cancel = match rng.u32(0..100) {
            0 | 1 => Cancel::AtOnce,
            2..=4 => Cancel::After(Duration::from_micros(rng.u64(0..30_000))),
            5 => Cancel::FromCallback,
            _ => Cancel::Never,
        };
        let fresh = kind != Kind::Read || rng.u32(0..10) == 0;
        let cursed = kind == Kind::Read && rng.u32(0..1000) < 7;
        Plan { kind, object: rng.u32(0..OBJECTS), fresh, offset, size, task_size, deadline, cancel, cursed }
    }

    /// Requests that it is split into.
    pub fn requests(&self) -> u64 {
        self.task_size.map_or(1, |task_size| self.size.div_ceil(task_size))
    }
}

fn log_uniform(rng: &mut fastrand::Rng, from: u64, to: u64) -> u64 {
    let (from, to) = ((from as f64).ln(), (to as f64).ln());
    ((from + (to - from) * rng.f64()).exp() as u64).max(1)
}
