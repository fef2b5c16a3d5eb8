//! Many transfers on one thread.

mod settled;

use self::settled::Settled;
use super::numbered::Numbered;
use super::sockets::{self, OriginId, Sockets};
use super::still::Still;
use super::straight::Straight;
use super::{Easy, Handler, missing, multi_error};
use crate::error::{Error, ErrorKind, Result};
use crate::sys::event::EventFd;
use crate::sys::fault::{self, Point};
use crate::sys::quiet::Inside;
use curl_sys::{CURLM, CURLM_OK};
use std::ffi::{c_int, c_long, c_void};
use std::ptr::NonNull;

/// A transfer that is over but still in its multi handle.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Which one.
    pub token: usize,
    /// `CURLcode`.
    pub code: u32,
}

/// A multi handle and the handles in it.
pub struct Multi<H: Handler> {
    raw: NonNull<CURLM>,
    /// Reached by libcurl's callbacks through a raw pointer, hence never held as a `Box` while the handle lives.
    sockets: NonNull<Sockets>,
    entries: Vec<Option<Easy<H>>>,
    free: Vec<usize>,
    /// Transfers to each origin that were added since the last [`Multi::advance`], and have no connection yet.
    added: Numbered<OriginId, usize>,
    /// Where it stands with libcurl's telling which sockets it waits for.
    settled: Settled,
    /// A handle could not be removed: libcurl still refers to it, so this multi handle is given up as well.
    broken: bool,
}

// SAFETY: a multi handle may move between threads as long as one thread at a time uses it, which ownership ensures.
unsafe impl<H: Handler> Send for Multi<H> {}

impl<H: Handler> Multi<H> {
    /// An empty multi handle that keeps at most `max_connections` connections open.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, INTERNAL.
    pub fn new(max_connections: u32) -> Result<Multi<H>> {
        let failed = || Error::new(ErrorKind::OutOfMemory, "libcurl cannot make a multi handle");
        if fault::hit(Point::MultiNew) {
            return Err(failed());
        }
        let sockets = Box::new(Sockets::new()?);
        let _inside = Inside::enter();
        // SAFETY: libcurl is initialised (a client exists), and null is checked.
        let raw = NonNull::new(unsafe { curl_sys::curl_multi_init() }).ok_or_else(failed)?;
        // SAFETY: a box's pointer is never null.
        let sockets = unsafe { NonNull::new_unchecked(Box::into_raw(sockets)) };
        let mut multi = Multi {
            raw,
            sockets,
            entries: Vec::new(),
            free: Vec::new(),
            added: Numbered::default(),
            settled: Settled::default(),
            broken: false,
        };
        let data = sockets.as_ptr().cast::<c_void>();
        // SAFETY: the sockets live until the handle is cleaned up; the functions have the types that the options document.
        unsafe {
            multi.pointer(curl_sys::CURLMOPT_SOCKETFUNCTION, sockets::on_socket as *mut c_void)?;
            multi.pointer(curl_sys::CURLMOPT_SOCKETDATA, data)?;
            multi.pointer(curl_sys::CURLMOPT_TIMERFUNCTION, sockets::on_timer as *mut c_void)?;
            multi.pointer(curl_sys::CURLMOPT_TIMERDATA, data)?;
        }
        multi.long(curl_sys::CURLMOPT_MAXCONNECTS, c_long::from(max_connections.min(i32::MAX as u32)))?;
        // A name look-up that hangs must not hold up the end of a client: without this, cleaning up waits for it.
        // Unknown to libcurl before 8.19, where the wait is the resolver's own time-out.
        let _ = multi.long(missing::CURLMOPT_QUICK_EXIT, 1);
        Ok(multi)
    }

    fn long(&mut self, option: u32, value: c_long) -> Result<()> {
        // SAFETY: the options used take a long.
        match unsafe { curl_sys::curl_multi_setopt(self.raw.as_ptr(), option, value) } {
            CURLM_OK => Ok(()),
            code => Err(multi_error("curl_multi_setopt", code)),
        }
    }

    /// # Safety
    /// `value` must be what `option` documents, and live as long as it says.
    unsafe fn pointer(&mut self, option: u32, value: *mut c_void) -> Result<()> {
        // SAFETY: promised by the caller.
        match unsafe { curl_sys::curl_multi_setopt(self.raw.as_ptr(), option, value) } {
            CURLM_OK => Ok(()),
            code => Err(multi_error("curl_multi_setopt", code)),
        }
    }

    fn sockets(&mut self) -> &mut Sockets {
        // SAFETY: libcurl's callbacks, which reach them too, run only inside its functions, none of which runs now.
        unsafe { self.sockets.as_mut() }
    }

    /// Transfers in it.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Connections that the transfers to this origin that are added next may use.
    pub fn idle_connections(&mut self, origin: OriginId) -> usize {
        let added = self.added.get(&origin).copied().unwrap_or_default();
        self.sockets().idle(origin).saturating_sub(added)
    }

    /// Connections that are open, whoever may use them.
    pub fn connections(&self) -> usize {
        // SAFETY: as in `Multi::sockets`.
        unsafe { self.sockets.as_ref() }.open()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens of the transfers in it.
    pub fn tokens(&self) -> Vec<usize> {
        (0..self.entries.len()).filter(|&token| self.entries[token].is_some()).collect()
    }

    /// Starts a transfer to this origin. `plain`: over TCP alone, without TLS or a proxy.
    ///
    /// # Errors
    /// INTERNAL or OUT_OF_MEMORY from libcurl, with the handle given back: only this transfer fails.
    #[allow(clippy::result_large_err)] // the handle is the point
    pub fn add(
        &mut self,
        mut easy: Easy<H>,
        origin: OriginId,
        plain: bool,
    ) -> std::result::Result<usize, (Easy<H>, Error)> {
        let token = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.sockets().set_origin(token, origin);
        let _inside = Inside::enter();
        let added = easy.set_home(token, self.sockets).and_then(|()| {
            if fault::hit(Point::MultiAdd) {
                return Err(multi_error("curl_multi_add_handle", CURLM_OUT_OF_MEMORY));
            }
            // SAFETY: both handles are alive, and the easy handle is in no other multi handle since it is owned here.
            match unsafe { curl_sys::curl_multi_add_handle(self.raw.as_ptr(), easy.raw()) } {
                CURLM_OK => Ok(()),
                code => Err(multi_error("curl_multi_add_handle", code)),
            }
        });
        match added {
            Ok(()) => {
                self.entries[token] = Some(easy);
                *self.added.entry(origin).or_default() += 1;
                self.settled.added(token, plain);
                Ok(token)
            }
            Err(error) => {
                self.free.push(token);
                Err((easy, error))
            }
        }
    }

    /// The handler of a transfer in it.
    pub fn handler(&mut self, token: usize) -> Option<&mut H> {
        self.entries.get_mut(token)?.as_mut().map(Easy::handler)
    }

    /// Nothing came for this transfer for a while: what the kernel may have of it comes now (see [`Settings::patient`](super::Settings)).
    /// False: it has none that was not told of.
    pub fn wait_no_more(&mut self, token: usize) -> bool {
        self.entries.get_mut(token).and_then(Option::as_mut).is_some_and(Easy::wait_no_more)
    }

    /// Whether the name of a transfer in it is looked up; true if there is none of this token.
    pub fn name_is_known(&self, token: usize) -> bool {
        self.entries.get(token).and_then(Option::as_ref).is_none_or(Easy::name_is_known)
    }

    /// Takes a transfer out; `None` if there is none of this token.
    ///
    /// # Errors
    /// When libcurl does not let it go. The handle is then leaked on purpose: libcurl may still use it. Take what its
    /// handler holds first; afterwards this multi handle is good for nothing but being dropped.
    pub fn remove(&mut self, token: usize) -> Result<Option<Easy<H>>> {
        if self.entries.get(token).is_none_or(Option::is_none) {
            return Ok(None);
        }
        self.let_go(token);
        let Some(mut easy) = self.entries[token].take() else { return Ok(None) };
        easy.go_straight_no_more(&mut self.sockets().straight);
        let _inside = Inside::enter();
        let code = if fault::hit(Point::MultiRemove) {
            CURLM_INTERNAL_ERROR
        } else {
            // SAFETY: both handles are alive.
            unsafe { curl_sys::curl_multi_remove_handle(self.raw.as_ptr(), easy.raw()) }
        };
        match code {
            CURLM_OK => {
                self.free.push(token);
                Ok(Some(easy))
            }
            code => {
                self.broken = true;
                self.free.push(token);
                std::mem::forget(easy);
                Err(multi_error("curl_multi_remove_handle", code))
            }
        }
    }

    /// [`Multi::remove`], after `take` has taken out of its handler what must not be lost.
    ///
    /// # Errors
    /// As [`Multi::remove`], with what was taken.
    #[allow(clippy::type_complexity)] // two ways to end, each with what it leaves
    pub fn remove_keeping<R>(
        &mut self,
        token: usize,
        take: impl FnOnce(&mut H) -> R,
    ) -> std::result::Result<Option<(Easy<H>, R)>, (R, Error)> {
        let Some(taken) = self.handler(token).map(take) else { return Ok(None) };
        match self.remove(token) {
            Ok(easy) => Ok(easy.map(|easy| (easy, taken))),
            Err(error) => Err((taken, error)),
        }
    }

    /// Moves on those transfers that can, as the last [`Multi::wait`] found, and starts those that were added.
    ///
    /// # Errors
    /// INTERNAL: nothing is known about any of its transfers any more.
    pub fn advance(&mut self) -> Result<()> {
        if self.settled.is_settled() {
            return self.advance_settled();
        }
        while let Some((socket, how)) = self.sockets().next_ready() {
            self.action(socket, how)?;
        }
        self.added.clear();
        if self.sockets().timer_is_due() {
            self.action(curl_sys::CURL_SOCKET_TIMEOUT, 0)?;
        }
        Ok(())
    }

    /// Has libcurl look at every socket that it waits for, whether it is told to be ready or not.
    ///
    /// # Errors
    /// As [`Multi::advance`].
    pub fn advance_all(&mut self) -> Result<()> {
        if self.settled.is_settled() {
            return self.unsettle();
        }
        for socket in self.sockets().all_wanted() {
            self.action(socket, 0)?;
        }
        self.action(curl_sys::CURL_SOCKET_TIMEOUT, 0)
    }

    fn action(&mut self, socket: curl_sys::curl_socket_t, how: c_int) -> Result<()> {
        self.run("curl_multi_socket_action", |raw, running| {
            // SAFETY: the handle is alive, and `&mut self` keeps every handler and the sockets out of reach while
            // callbacks run.
            unsafe { curl_sys::curl_multi_socket_action(raw, socket, how, running) }
        })
    }

    /// Lets libcurl run, which may call back.
    fn run(&mut self, name: &str, call: impl FnOnce(*mut CURLM, *mut c_int) -> c_int) -> Result<()> {
        let _inside = Inside::enter();
        // SAFETY: the sockets outlive the handle, and only callbacks reach them until this call is over.
        let _straight = unsafe { Straight::run(&raw mut (*self.sockets.as_ptr()).straight) };
        // The system's libcurl asks another clock, and for bytes in another way.
        let _still = cfg!(feature = "bundled-curl").then(Still::begin);
        let mut running: c_int = 0;
        let code = match fault::hit(Point::MultiAction) {
            true => CURLM_INTERNAL_ERROR,
            false => call(self.raw.as_ptr(), &raw mut running),
        };
        match (code, self.sockets().refused()) {
            (CURLM_OK, None) => Ok(()),
            (_, Some(error)) => Err(broken("watching a socket", &error)),
            (code, None) => Err(multi_error(name, code)),
        }
    }

    /// The next transfer that is over, if there is one. [`Multi::remove`] it.
    pub fn next_done(&mut self) -> Option<Done> {
        loop {
            let mut queued: c_int = 0;
            // SAFETY: the message is read before the next call on this handle, which may invalidate it.
            let (easy, code) = unsafe {
                let message = curl_sys::curl_multi_info_read(self.raw.as_ptr(), &mut queued);
                if message.is_null() {
                    return None;
                }
                if (*message).msg != curl_sys::CURLMSG_DONE {
                    continue;
                }
                // `data` is a union of a pointer and a CURLcode.
                ((*message).easy_handle, *(&raw const (*message).data).cast::<u32>())
            };
            let mut token: *mut c_void = std::ptr::null_mut();
            // SAFETY: CURLINFO_PRIVATE writes a pointer; it is the token that `add` set.
            unsafe { curl_sys::curl_easy_getinfo(easy, curl_sys::CURLINFO_PRIVATE, &raw mut token) };
            return Some(Done { token: token as usize, code });
        }
    }

    /// Waits until a transfer can move on, `wake` is signalled, or `timeout_ms` is over. The same `wake` each time.
    ///
    /// # Errors
    /// INTERNAL: nothing is known about any of its transfers any more.
    pub fn wait(&mut self, wake: &EventFd, timeout_ms: u32) -> Result<()> {
        let waited = match fault::hit(Point::MultiWait) {
            true => Err(std::io::Error::from_raw_os_error(libc::EINVAL)),
            false => self.sockets().wait(wake, timeout_ms),
        };
        waited.map_err(|error| broken("waiting for sockets", &error))
    }

    /// Whether connections that no transfer uses were closed by their servers, as a rule, and are not closed here.
    pub fn keeps_ended(&mut self) -> bool {
        self.sockets().ended() > 0
    }

    /// Closes connections that no transfer uses. Without effect before libcurl 8.16.
    pub fn close_idle(&mut self) {
        let _inside = Inside::enter();
        let _ = self.long(missing::CURLMOPT_NETWORK_CHANGED, missing::CURLMNWC_CLEAR_CONNS);
    }
}

/// Whatever the system's reason, it is none of the caller's.
fn broken(what: &str, source: &std::io::Error) -> Error {
    let error = Error::new(ErrorKind::Internal, format!("{what}: {source}"));
    error.with_os_code(source.raw_os_error().unwrap_or(0))
}

/// CURLM_OUT_OF_MEMORY and CURLM_INTERNAL_ERROR, for faults on demand.
const CURLM_OUT_OF_MEMORY: c_int = 3;
const CURLM_INTERNAL_ERROR: c_int = 4;

impl<H: Handler> Drop for Multi<H> {
    fn drop(&mut self) {
        let _inside = Inside::enter();
        for token in 0..self.entries.len() {
            // An error is handled inside: the handle leaks and `broken` is set.
            let _ = self.remove(token);
        }
        // A broken one is leaked with its sockets: libcurl still refers to both.
        if !self.broken {
            // SAFETY: the last use of the handle, and no easy handle is in it any more. The sockets came from a box, and
            // closing the last connections is the last that libcurl does with them.
            unsafe {
                curl_sys::curl_multi_cleanup(self.raw.as_ptr());
                drop(Box::from_raw(self.sockets.as_ptr()));
            }
        }
    }
}
