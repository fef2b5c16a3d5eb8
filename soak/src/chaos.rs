//! What goes wrong beside the replies: RaskIO's own parts fail, connections are dropped, the machine stands still.

use crate::data::rng;
use crate::world::World;
use raskio::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A sleep that takes so much longer than it should means that other threads did not run either.
const STANDSTILL: Duration = Duration::from_millis(700);

/// What has happened so far, to be compared between an operation's beginning and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Faults inside RaskIO.
    pub injected: u64,
    /// Connections dropped; odd while it happens.
    pub drops: u64,
    /// Times that the machine stood still.
    pub standstills: u64,
}

static DROPS: AtomicU64 = AtomicU64::new(0);
static STANDSTILLS: AtomicU64 = AtomicU64::new(0);

/// What has happened so far.
pub fn now() -> Moment {
    Moment { injected: inside::total(), drops: DROPS.load(SeqCst), standstills: STANDSTILLS.load(SeqCst) }
}

/// Makes trouble until `stop`. `leaks`: also trouble that costs a handle and its connections for good.
pub fn run(world: &World, clients: &[Arc<Client>], round: u64, leaks: bool, stop: &AtomicBool) {
    let mut rng = rng(world.seed, &[5, round]);
    while !stop.load(SeqCst) {
        let pause = Duration::from_millis(rng.u64(40..250));
        let before = Instant::now();
        std::thread::sleep(pause);
        if before.elapsed() > pause + STANDSTILL {
            STANDSTILLS.fetch_add(1, SeqCst);
        }
        match rng.u32(0..10) {
            0 => {
                DROPS.fetch_add(1, SeqCst);
                world.servers[rng.usize(0..2)].drop_connections();
                DROPS.fetch_add(1, SeqCst);
            }
            1 => clients[rng.usize(0..clients.len())].trim(),
            _ => inside::arm(&mut rng, leaks),
        }
    }
    inside::disarm();
}

/// Faults inside RaskIO.
#[cfg(feature = "fault-injection")]
pub mod inside {
    use raskio::sys::fault::{self, Point};

    /// All that is used here; making a thread is not, since a client without its threads is no client.
    const POINTS: [(Point, &str, u64); 8] = [
        (Point::MultiAction, "curl_multi_socket_action", 400),
        (Point::MultiWait, "epoll_wait", 400),
        (Point::MultiAdd, "curl_multi_add_handle", 100),
        (Point::MultiNew, "curl_multi_init", 0),
        (Point::EasyNew, "curl_easy_init", 3),
        (Point::PanicInBody, "panic in a body", 400),
        (Point::PanicInLoop, "panic in a loop", 400),
        (Point::MultiRemove, "curl_multi_remove_handle", 100),
    ];

    /// Whether this build has them.
    pub const BUILT_IN: bool = true;

    /// Has one of them happen soon.
    pub fn arm(rng: &mut fastrand::Rng, leaks: bool) {
        let (point, _, most) = POINTS[rng.usize(0..POINTS.len() - usize::from(!leaks))];
        fault::arm(point, rng.u64(0..=most), 1);
    }

    /// None happens any more.
    pub fn disarm() {
        POINTS.iter().for_each(|(point, ..)| fault::arm(*point, 0, 0));
    }

    /// How often each has happened.
    pub fn hits() -> Vec<(&'static str, u64)> {
        POINTS.iter().map(|(point, name, _)| (*name, fault::hits(*point))).collect()
    }

    /// How often any has happened.
    pub fn total() -> u64 {
        POINTS.iter().map(|(point, ..)| fault::hits(*point)).sum()
    }
}

/// Faults inside RaskIO, which this build has not.
#[cfg(not(feature = "fault-injection"))]
pub mod inside {
    /// Whether this build has them.
    pub const BUILT_IN: bool = false;
    /// None.
    pub fn arm(_: &mut fastrand::Rng, _: bool) {}
    /// None.
    pub fn disarm() {}
    /// None.
    pub fn hits() -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    /// None.
    pub fn total() -> u64 {
        0
    }
}
