//! How a thread serves a request: the file is opened, its size asked for; without a ring the bytes are moved here too.

use super::pool::Pool;
use super::work::{Step, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::local::OpenFile;
use crate::plan::ByteRange;
use crate::staging::{Room, Told};
use crate::stats;
use crate::sys::mem::Pages;
use crate::transport::reactor::engine::{Stop, shut_down};
use crate::transport::{Found, Job, Transfer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a profiler shows of requests whose sink has no buffer yet.
pub(super) const FOR_A_BUFFER: &std::ffi::CStr = c"wait for a pinned buffer";

impl Pool {
    /// A request that has not begun.
    pub(super) fn serve(self: &Arc<Self>, mut transfer: Transfer, spare: &mut Vec<Pages>) {
        if transfer.is_over() {
            return self.end_queued(transfer, Ok(()));
        }
        let Some((opened, file)) = self.open(transfer) else { return };
        transfer = opened;
        match transfer.job() {
            Job::Nothing => return self.end_queued(transfer, Ok(())),
            Job::Stat { .. } => {
                let Some((transfer, _)) = self.learn(transfer, &file) else { return };
                transfer.op.add_attempt(&transfer.part);
                return self.end_queued(transfer, Ok(()));
            }
            Job::End(end) => {
                let len = end.len;
                let Some((learned, size)) = self.learn(transfer, &file) else { return };
                match learned.found_end(ByteRange::last(len, size)) {
                    Found::Nothing(transfer) => return self.end_queued(transfer, Ok(())),
                    Found::No(transfer, error) => return self.end_queued(transfer, Err(error)),
                    Found::Read(found) => transfer = found,
                    Found::Several(several) => {
                        let more = several.len() as u64 - 1;
                        stats::add(&self.stats().requests_started, more);
                        stats::add(&self.stats().requests_queued, more);
                        return self.post(self.to_rings(several));
                    }
                }
            }
            Job::Write(_) if transfer.syncs_name_of(&file) => {
                let what = transfer.describe();
                let asked = self.ask(transfer, || file.sync_name().map_err(|error| error.context(what)));
                let Some((synced, ())) = asked else { return };
                transfer = synced;
            }
            Job::Read { .. } | Job::Write(_) => {}
        }
        if self.rings.is_some() {
            match self.to_rings(vec![transfer]).pop() {
                // It has no ring after all.
                Some(back) => transfer = back,
                None => return,
            }
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        match self.prepare(&mut transfer, number) {
            Room::Yes => self.carry_out(Work::new(self.begin(transfer), file), spare),
            Room::Later => self.put_aside(number, transfer),
            Room::No(error) => self.end_unready(transfer, error),
        }
    }

    /// A request with its file, open. `None`: it waits for whoever opens that, or it is over.
    fn open(self: &Arc<Self>, transfer: Transfer) -> Option<(Transfer, Arc<OpenFile>)> {
        let Some(local) = transfer.object.endpoint().local().cloned() else {
            let words = format!("{}: no file is read like one; this is a bug in RaskIO", transfer.object.name());
            self.end_queued(transfer, Err(Error::new(ErrorKind::Internal, words)));
            return None;
        };
        if let Some(file) = local.opened() {
            return Some((transfer, file));
        }
        let address = Arc::as_ptr(&local) as usize;
        {
            let mut queue = self.queue.lock();
            if let Some(behind) = queue.opening.get_mut(&address) {
                let over = transfer.is_over();
                behind.push(transfer);
                // It may have become over since it was looked at, and after those that wait were.
                queue.sweep |= over;
                return None;
            }
            queue.opening.insert(address, Vec::new());
        }
        let (object, what) = (transfer.object.clone(), transfer.describe());
        let for_write = matches!(transfer.job(), Job::Write(_));
        let opened = self.ask(transfer, || {
            let file = local.open(self.bypass, for_write).map_err(|error| error.context(what))?;
            object.learn_file(&file)?;
            Ok(file)
        });
        let behind = self.queue.lock().opening.remove(&address);
        // Without a file each of them tries for itself: a write makes one.
        self.post(self.to_rings(behind.unwrap_or_default()));
        opened
    }

    /// A request with the size of its file now. `None`: it is over.
    fn learn(self: &Arc<Self>, transfer: Transfer, file: &OpenFile) -> Option<(Transfer, u64)> {
        let object = transfer.object.clone();
        self.ask(transfer, || object.learn_file(file))
    }

    /// Asks the system something for a request, which may last as long as the file system likes. Meanwhile the request lies where the
    /// keeper can end it. `None`: it is over, by that or by an error.
    fn ask<T>(self: &Arc<Self>, transfer: Transfer, what: impl FnOnce() -> Result<T>) -> Option<(Transfer, T)> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let more = {
            let mut queue = self.queue.lock();
            if queue.closed {
                drop(queue);
                self.refuse(transfer);
                return None;
            }
            if transfer.is_over() {
                queue.sweep = true;
                self.chore_came(&queue);
            }
            queue.held.insert(number, transfer);
            // Nobody else is there for what is queued.
            let more = !queue.lanes.is_empty() && queue.idle == 0 && queue.threads < self.most;
            queue.threads += usize::from(more);
            more
        };
        self.add_servers(usize::from(more));
        let answer = self.threads.away(|| catch_unwind(AssertUnwindSafe(what)));
        let transfer = self.queue.lock().held.remove(&number)?;
        let answer = answer.unwrap_or_else(|_| {
            let words = format!("{}: a panic was caught; this is a bug in RaskIO", transfer.describe());
            Err(Error::new(ErrorKind::Internal, words))
        });
        match answer {
            Ok(answer) => Some((transfer, answer)),
            Err(error) => {
                self.end_queued(transfer, Err(error));
                None
            }
        }
    }

    /// Has the sink of a request get ready. Under this number it is told when it may go on.
    fn prepare(self: &Arc<Self>, transfer: &mut Transfer, number: u64) -> Room {
        transfer.prepare(&mut || -> Told {
            let pool = Arc::downgrade(self);
            Box::new(move || {
                let Some(pool) = pool.upgrade() else { return };
                let mut queue = pool.queue.lock();
                match queue.waiting.remove(&number) {
                    Some(transfer) => queue.lanes.push_first(transfer),
                    None => drop(queue.told.insert(number)),
                }
                drop(queue);
                pool.work.notify_one();
            })
        })
    }

    fn put_aside(&self, number: u64, mut transfer: Transfer) {
        transfer.waits_for(FOR_A_BUFFER);
        let mut queue = self.queue.lock();
        if queue.told.remove(&number) {
            queue.lanes.push_first(transfer);
        } else {
            // It may have become over since it was looked at, and after those that wait were.
            queue.sweep |= transfer.is_over();
            queue.waiting.insert(number, transfer);
        }
    }

    fn carry_out(&self, mut work: Work, spare: &mut Vec<Pages>) {
        loop {
            match self.stop() {
                Stop::No => {}
                Stop::ShutDown => work.transfer.op.fail(shut_down()),
                // The host's memory may be half gone.
                Stop::Abandon => return std::mem::forget(work),
            }
            let step = work.next(spare);
            let file = work.file.clone();
            let outcome = match step {
                Step::Over(result) => return self.finish(work, result, spare),
                Step::Sync => file.sync().map(|()| 0),
                Step::Read { at, direct, .. } => match work.lend(&step) {
                    Some(mut span) => file.file(direct).read_at(&mut span, at),
                    None => Ok(0),
                },
                Step::Write { at, direct, .. } => match work.lend(&step) {
                    Some(span) => file.file(direct).write_at(&span, at),
                    None => Ok(0),
                },
            };
            if let Some(result) = work.done(&step, outcome, self.stats(), false) {
                return self.finish(work, result, spare);
            }
        }
    }
}
