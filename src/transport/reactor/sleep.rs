//! A thread that has nothing to do until something comes, or it is time for something.

use super::Local;
use crate::error::Result;
use std::time::{Duration, Instant};

/// The longest wait while transfers are in flight: then libcurl looks at every socket, so that an event that got lost
/// delays nothing by more.
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// The longest wait of an idle thread: four looks a minute, and no CPU to speak of.
const IDLE_WAIT: Duration = Duration::from_secs(15);
/// Connections that their servers have closed are closed here after so long without work: libcurl itself does so when it looks for one to
/// use, and until then each is a descriptor, and a line in `ss` (CLOSE-WAIT) that looks like a leak.
const KEEP_ENDED: Duration = Duration::from_secs(2);

impl Local {
    /// Waits for the sockets, for messages, and for the next time that something is due.
    pub(super) fn sleep(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let waker = engine.members[self.index].inbox.waker();
        let now = Instant::now();
        let in_flight = self.multi.as_ref().is_some_and(|multi| !multi.is_empty());
        self.close_ended(now, in_flight);
        let mut wake_at = now + if in_flight { BUSY_WAIT } else { IDLE_WAIT };
        if in_flight && self.engine.stall.is_some() {
            wake_at = wake_at.min(self.next_scan);
        }
        // Whoever waits for a permit sees to it that there is another one if more of them would help.
        let waits = self.in_line || self.held_back;
        let limit_at = self.engine.limiter.as_ref().filter(|_| waits).and_then(|limiter| limiter.next_look());
        for next in
            [self.timers.next(), self.look_at, self.connect_at, limit_at, self.close_idle_at].into_iter().flatten()
        {
            wake_at = wake_at.min(next);
        }
        if !waker.may_sleep() {
            return Ok(());
        }
        // Rounded up: waking a moment early only means looking twice.
        let wait = wake_at.saturating_duration_since(now).as_micros().div_ceil(1000);
        let wait = u32::try_from(wait).unwrap_or(u32::MAX);
        let naps = &engine.members[self.index].naps;
        naps.begin(now);
        // A thread that has had nothing to do has none: a multi handle is five descriptors.
        let waited = match &mut self.multi {
            Some(multi) => multi.wait(waker.signal(), wait),
            None => {
                waker.signal().wait(Some(Duration::from_millis(wait.into())));
                Ok(())
            }
        };
        waker.awake();
        let woken = Instant::now();
        naps.end(woken);
        waited?;
        // By the clock, not by how this wait ended: looks for stalls and other timers end waits before their time.
        if !in_flight {
            self.looked_at_all = woken;
        } else if woken.saturating_duration_since(self.looked_at_all) >= BUSY_WAIT {
            self.looked_at_all = woken;
            self.multi()?.advance_all()?;
        }
        Ok(())
    }

    /// Closes idle connections a while after some of them have ended, if nothing else has done that by then.
    fn close_ended(&mut self, now: Instant, in_flight: bool) {
        let Some(multi) = self.multi.as_mut().filter(|_| !in_flight) else { return self.close_idle_at = None };
        self.close_idle_at = match self.close_idle_at {
            _ if !multi.keeps_ended() => None,
            None => Some(now + KEEP_ENDED),
            Some(at) if at > now => Some(at),
            Some(_) => {
                multi.close_idle();
                None
            }
        };
    }
}
