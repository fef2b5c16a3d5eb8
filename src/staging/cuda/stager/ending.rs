//! The ends of a stager: its context cannot be entered for a while, is gone, or is broken; or there is nothing left to do.

use super::{Ended, Local, Message};
use crate::error::{Error, ErrorKind};
use crate::sys::cuda::context;
use crate::sys::cuda::{Current, Failure, Registration};

impl Local {
    /// The context cannot be entered now: what is new fails, what runs goes on.
    pub(super) fn refuse_new(&mut self, failure: Failure) {
        for message in std::mem::take(&mut self.messages) {
            if let Message::Copy(copy) = message {
                let error = Error::from(failure).context("entering the CUDA context of the buffer");
                self.end(copy.without_bytes(Some(error)));
            }
        }
        self.shared.cache.fail_first(&Error::from(failure).context("entering the CUDA context of the buffer"));
    }

    /// The context is gone or broken: everything fails, now and later. `current`: it can be entered, and what the driver still
    /// takes back is given back; it may say for each that it is broken, which is told once.
    pub(super) fn end_context(&mut self, failure: Failure, current: Option<&Current<'_>>) {
        let broken = failure.has_broken_the_context();
        let error = if broken { context::broken(failure) } else { context::gone(failure) };
        let registration = match current {
            Some(current) => Registration::Ends(current),
            None if broken => Registration::Stays,
            None => Registration::Ended,
        };
        *self.shared.ended.lock() = Some(Ended { error: error.clone(), broken });
        if broken {
            self.shared.cache.close_broken(&error);
        } else {
            self.shared.cache.close(&error);
        }
        self.messages.extend(self.shared.inbox.close());
        let mut copies = Vec::new();
        for lane in self.own.iter_mut().chain(&mut self.callers) {
            copies.extend(lane.drain());
        }
        for message in self.messages.drain(..) {
            if let Message::Copy(copy) = message {
                copies.push(copy);
            }
        }
        // No copy runs any more: nothing reads the buffers, or writes them.
        let of_copies = copies.iter_mut().filter_map(|copy| copy.buffer.take());
        self.doubtful.drain(..).chain(of_copies).for_each(|buffer| buffer.release(registration));
        self.shared.cache.trim(registration);
        if let Some(current) = current {
            self.shared.events.trim(current);
            // What the driver says is known.
            let _ = self.own.take().map(|own| own.into_stream().destroy(current));
        }
        self.shared.events.abandon();
        self.own = None;
        self.callers.clear();
        self.over.extend(copies.into_iter().map(|copy| (copy.without_bytes(Some(error.clone())), false)));
        let kept = match self.shared.cache.kept() {
            0 => String::new(),
            kept => format!("; {kept} bytes of pinned memory stay mapped, which the driver may still know"),
        };
        log::warn!(target: "raskio", "{}{kept}", error.message());
    }

    /// The end, with nothing left to do.
    pub(super) fn release_everything(&mut self) {
        let shut_down = Error::new(ErrorKind::ShutDown, "the client was shut down");
        self.shared.cache.close(&shut_down);
        for message in self.shared.inbox.close() {
            if let Message::Copy(copy) = message {
                copy.without_bytes(Some(shut_down.clone())).end(false);
            }
        }
        match self.shared.context.enter() {
            Ok(current) => {
                self.shared.cache.trim(Registration::Ends(&current));
                self.shared.events.trim(&current);
                if let Some(own) = self.own.take() {
                    if let Err(failure) = own.into_stream().destroy(&current) {
                        log::error!(target: "raskio", "{}", Error::from(failure).message());
                    }
                }
            }
            Err(failure) => {
                self.shared.events.abandon();
                let stays = failure.has_broken_the_context();
                self.shared.cache.trim(if stays { Registration::Stays } else { Registration::Ended });
            }
        }
    }
}
