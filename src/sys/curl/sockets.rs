//! The sockets of a multi handle, watched by epoll on libcurl's behalf.
//!
//! libcurl forgets a connection's socket at the end of each transfer and asks for it again at the start of the next.
//! The kernel is told of neither: a socket that libcurl opened here stays in the set until it is closed, or until
//! something comes from it that nobody waits for. That saves two system calls a request.

use super::numbered::Numbered;
use super::still;
use super::straight::Straight;
use crate::sys::epoll::{self, Epoll, Ready};
use crate::sys::event::EventFd;
use curl_sys::{CURL, CURLM, curl_sockaddr, curl_socket_t, curlsocktype};
use std::ffi::{c_char, c_int, c_long, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Where a connection leads: a number for scheme, host and port.
pub type OriginId = u64;

/// One socket, by its descriptor.
#[derive(Clone, Copy, Default)]
struct Watch {
    /// What the kernel watches it for; 0: it is not in the set.
    told: u32,
    /// What libcurl waits for; 0: nothing.
    wanted: u32,
    /// It is a connection's, opened here, and its end will be told by [`on_close`]. Others, such as those of a name
    /// look-up, are closed without a word.
    ours: bool,
    /// Where it leads, once libcurl has waited for it.
    origin: OriginId,
    /// The transfer that was said to use it by [`Sockets::take`], by its token and one; 0: none.
    user: usize,
    /// It is idle, and its server has closed it, as a rule.
    ended: bool,
    /// libcurl's number of its connection, where that was asked for.
    connection: Option<i64>,
}

/// The sockets and the timer of one multi handle.
pub struct Sockets {
    epoll: Epoll,
    /// By descriptor.
    watches: Vec<Watch>,
    ready: Vec<Ready>,
    /// When libcurl wants to be called although no socket is ready.
    timer: Option<Instant>,
    /// Why the kernel refused to watch a socket.
    refused: Option<std::io::Error>,
    /// Connections to each place that nothing is waited for from: the next transfer may use one.
    idle: Numbered<OriginId, usize>,
    /// Where the transfer of each token goes.
    origins: Vec<OriginId>,
    /// Connections that libcurl waits for something from, or that a transfer has taken.
    busy: usize,
    /// Connections that are open.
    open: usize,
    /// Idle connections that have ended.
    ended: usize,
    /// The sockets of connections, by libcurl's number.
    pub(super) connections: Numbered<i64, curl_socket_t>,
    /// See [`Sockets::disturbed`].
    disturbed: bool,
    /// Whose bytes need no copy.
    pub(super) straight: Straight,
    /// The wake-up that ends a wait, once one has been given.
    wake: Option<c_int>,
}

impl Sockets {
    /// None yet.
    ///
    /// # Errors
    /// IO when the process or the system is out of file descriptors.
    pub fn new() -> crate::error::Result<Sockets> {
        Ok(Sockets {
            epoll: Epoll::new()?,
            watches: Vec::new(),
            ready: Vec::new(),
            timer: None,
            refused: None,
            idle: Numbered::default(),
            origins: Vec::new(),
            busy: 0,
            open: 0,
            ended: 0,
            connections: Numbered::default(),
            disturbed: false,
            straight: Straight::default(),
            wake: None,
        })
    }

    /// Waits until a socket is ready, `wake` is signalled, libcurl's timer is over, or for `timeout_ms`. What is ready
    /// is kept for [`Sockets::next_ready`].
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&mut self, wake: &EventFd, timeout_ms: u32) -> std::io::Result<()> {
        if self.wake != Some(wake.raw()) {
            if let Some(before) = self.wake.take() {
                self.epoll.remove(before);
            }
            self.epoll.add(wake.raw(), epoll::READ)?;
            self.wake = Some(wake.raw());
        }
        let mut timeout = u128::from(timeout_ms);
        if let Some(at) = self.timer {
            // Rounded up: a wait that ends a moment early only repeats itself.
            timeout = timeout.min(at.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000));
        }
        self.epoll.wait(c_int::try_from(timeout).unwrap_or(c_int::MAX), &mut self.ready)
    }

    /// The next socket that libcurl waits for and that is ready, with libcurl's word for how.
    pub fn next_ready(&mut self) -> Option<(curl_socket_t, c_int)> {
        while let Some(Ready { fd, what }) = self.ready.pop() {
            if self.wake == Some(fd) {
                continue;
            }
            let Some(&watch) = self.watches.get(fd as usize) else { continue };
            if watch.wanted == 0 {
                // An idle connection that its server closed, as a rule. libcurl finds out before it uses it again; until
                // then the kernel would report it for ever.
                if watch.told != 0 {
                    self.epoll.remove(fd);
                    self.set(fd, Watch { told: 0, ended: watch.ours, ..watch });
                    self.disturbed = true;
                }
                continue;
            }
            let mut how = 0;
            if what & epoll::READ != 0 {
                how |= curl_sys::CURL_CSELECT_IN;
            }
            if what & epoll::WRITE != 0 {
                how |= curl_sys::CURL_CSELECT_OUT;
            }
            if what & epoll::BROKEN != 0 {
                how |= curl_sys::CURL_CSELECT_ERR;
            }
            return Some((fd, how));
        }
        None
    }

    /// Whether libcurl's timer is over; if so, it is taken back.
    pub fn timer_is_due(&mut self) -> bool {
        self.timer.take_if(|at| *at <= Instant::now()).is_some()
    }

    /// Everything that libcurl waits for.
    pub fn all_wanted(&self) -> Vec<curl_socket_t> {
        let all = self.watches.iter().enumerate();
        all.filter(|(_, watch)| watch.wanted != 0).map(|(fd, _)| fd as curl_socket_t).collect()
    }

    /// Idle connections that something came from, their end as a rule.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// Connections that are open, but those that are being shut down.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Connections that something is waited for from.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Whether a connection was opened, one that a transfer has taken was closed, or something came from one that is idle, since
    /// this was asked for last.
    pub fn disturbed(&mut self) -> bool {
        std::mem::take(&mut self.disturbed)
    }

    /// libcurl is to be called at once; `disturbed`: what [`Sockets::disturbed`] says then, if nothing else happens.
    pub fn run_soon(&mut self, disturbed: bool) {
        self.timer = Some(Instant::now());
        self.disturbed = disturbed;
    }

    /// The socket of the connection with this number, once it was noted.
    pub fn of_connection(&self, number: i64) -> Option<curl_socket_t> {
        self.connections.get(&number).copied()
    }

    /// Notes the socket of a connection. False: it is none that was opened here.
    pub fn note_connection(&mut self, number: i64, fd: curl_socket_t) -> bool {
        if fd < 0 || !self.watch(fd).ours {
            return false;
        }
        self.watch(fd).connection = Some(number);
        self.connections.insert(number, fd);
        true
    }

    /// Whether all that is waited for on it is that it can be read.
    pub fn only_reads(&mut self, fd: curl_socket_t) -> bool {
        let Watch { told, wanted, ours, .. } = *self.watch(fd);
        ours && told == epoll::READ && wanted == epoll::READ
    }

    /// The transfer of this token uses the connection with this socket until [`Sockets::release`], and waits for it to be
    /// readable: libcurl does not say so.
    ///
    /// # Errors
    /// The system's.
    pub fn take(&mut self, fd: curl_socket_t, token: usize) -> std::io::Result<()> {
        let origin = self.origins.get(token).copied();
        self.want(fd, epoll::READ, origin)?;
        self.watch(fd).user = token + 1;
        Ok(())
    }

    /// The connection with this socket leads where the transfer of this token goes, if nothing has told that yet.
    pub fn leads(&mut self, fd: curl_socket_t, token: usize) {
        let before = *self.watch(fd);
        if let (true, 0, Some(&origin)) = (before.ours, before.origin, self.origins.get(token)) {
            self.set(fd, Watch { origin, ..before });
        }
    }

    /// The transfer of this token does not use this socket any more, if it still did.
    pub fn release(&mut self, fd: curl_socket_t, token: usize) {
        let before = *self.watch(fd);
        if before.user == token + 1 {
            self.set(fd, Watch { wanted: 0, user: 0, ..before });
        }
    }

    /// The connection with this socket is one that no transfer can use any more, and not closed yet.
    pub fn is_leaving(&mut self, fd: curl_socket_t) {
        let before = *self.watch(fd);
        if before.ours {
            self.set(fd, Watch { ours: false, ..before });
            self.run_soon(true);
        }
    }

    /// The transfer that has taken this socket.
    pub fn user(&mut self, fd: curl_socket_t) -> Option<usize> {
        self.watch(fd).user.checked_sub(1)
    }

    /// Why a callback ended everything, if one did.
    pub fn refused(&mut self) -> Option<std::io::Error> {
        self.refused.take()
    }

    /// Connections to `origin` that no transfer uses, and that are not being shut down.
    pub fn idle(&self, origin: OriginId) -> usize {
        self.idle.get(&origin).copied().unwrap_or_default()
    }

    /// The transfer of this token goes there.
    pub fn set_origin(&mut self, token: usize, origin: OriginId) {
        if self.origins.len() <= token {
            self.origins.resize(token + 1, 0);
        }
        self.origins[token] = origin;
    }

    fn watch(&mut self, fd: curl_socket_t) -> &mut Watch {
        let index = usize::try_from(fd).unwrap_or_default();
        if self.watches.len() <= index {
            self.watches.resize(index + 1, Watch::default());
        }
        &mut self.watches[index]
    }

    fn set(&mut self, fd: curl_socket_t, watch: Watch) {
        let is_idle = |watch: Watch| watch.ours && watch.wanted == 0;
        let is_busy = |watch: Watch| watch.ours && watch.wanted != 0;
        let before = std::mem::replace(self.watch(fd), watch);
        if is_idle(before) {
            if let Some(idle) = self.idle.get_mut(&before.origin) {
                *idle -= 1;
                // Nothing is kept for a place that nothing leads to.
                if *idle == 0 && !watch.ours {
                    self.idle.remove(&before.origin);
                }
            }
        }
        self.busy = self.busy + usize::from(is_busy(watch)) - usize::from(is_busy(before));
        self.open = self.open + usize::from(watch.ours) - usize::from(before.ours);
        self.ended = self.ended + usize::from(watch.ended) - usize::from(before.ended);
        if is_idle(watch) {
            *self.idle.entry(watch.origin).or_default() += 1;
        }
    }

    /// libcurl waits for this of a socket, or for nothing more. `origin`: for whose sake.
    fn want(&mut self, fd: curl_socket_t, wanted: u32, origin: Option<OriginId>) -> std::io::Result<()> {
        let before = *self.watch(fd);
        self.set(fd, Watch { wanted, origin: origin.unwrap_or(before.origin), user: 0, ended: false, ..before });
        let Watch { told, ours, .. } = before;
        let outcome = match (told, wanted) {
            (_, 0) if ours => return Ok(()),
            (told, wanted) if told == wanted => return Ok(()),
            (_, 0) => {
                self.epoll.remove(fd);
                Ok(())
            }
            (0, wanted) => self.epoll.add(fd, wanted),
            (_, wanted) => self.epoll.change(fd, wanted),
        };
        if outcome.is_ok() {
            self.watch(fd).told = wanted;
        }
        outcome
    }

    /// A connection's socket was opened, or is about to be closed.
    fn forget(&mut self, fd: curl_socket_t, ours: bool) {
        // Told, although closing does it too: a forked child may hold a copy, and then closing does not.
        if self.watch(fd).told != 0 {
            self.epoll.remove(fd);
        }
        let Watch { user, connection, .. } = *self.watch(fd);
        self.disturbed |= ours || user != 0;
        if let Some(number) = connection {
            self.connections.remove(&number);
        }
        self.straight.closed(fd);
        self.set(fd, Watch { ours, ..Watch::default() });
    }
}

/// CURLMOPT_SOCKETFUNCTION. `user`: the [`Sockets`].
pub extern "C" fn on_socket(
    easy: *mut CURL,
    fd: curl_socket_t,
    what: c_int,
    user: *mut c_void,
    _: *mut c_void,
) -> c_int {
    let wanted = match what {
        curl_sys::CURL_POLL_IN => epoll::READ,
        curl_sys::CURL_POLL_OUT => epoll::WRITE,
        curl_sys::CURL_POLL_INOUT => epoll::READ | epoll::WRITE,
        _ => 0,
    };
    guarded(user, -1, |sockets| {
        // A transfer that ends has no say any more in where its connection leads.
        let origin = if wanted == 0 { None } else { sockets.origins.get(token(easy)).copied() };
        match sockets.want(fd, wanted, origin) {
            Ok(()) => 0,
            Err(error) => {
                sockets.refused = Some(error);
                -1
            }
        }
    })
}

/// The token of a transfer, or one that none has: libcurl closes connections with a handle of its own.
fn token(easy: *mut CURL) -> usize {
    let mut token: *mut c_char = std::ptr::null_mut();
    // SAFETY: the handle is alive, and the pointer is to one. What it points to is never followed: it is a number.
    let code = unsafe { curl_sys::curl_easy_getinfo(easy, curl_sys::CURLINFO_PRIVATE, &raw mut token) };
    if code == curl_sys::CURLE_OK { token as usize } else { usize::MAX }
}

/// CURLMOPT_TIMERFUNCTION. `user`: the [`Sockets`]. Only notes the time: libcurl must not be called from here.
pub extern "C" fn on_timer(_: *mut CURLM, timeout_ms: c_long, user: *mut c_void) -> c_int {
    guarded(user, -1, |sockets| {
        sockets.timer = u64::try_from(timeout_ms).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
        0
    })
}

/// CURLOPT_OPENSOCKETFUNCTION. `user`: the [`Sockets`] of the multi handle that the transfer is in.
pub extern "C" fn on_open(user: *mut c_void, _: curlsocktype, address: *mut curl_sockaddr) -> curl_socket_t {
    // Many may be set up one after the other: each one's time to connect begins here.
    still::goes_on();
    // SAFETY: libcurl passes a valid address; no pointers are passed on. Its type carries SOCK_CLOEXEC already.
    let fd = unsafe { libc::socket((*address).family, (*address).socktype, (*address).protocol) };
    // On failure libcurl reads errno, which nothing may change here.
    if fd >= 0 {
        guarded(user, (), |sockets| sockets.forget(fd, true));
    }
    fd
}

/// CURLOPT_CLOSESOCKETFUNCTION. `user`: the [`Sockets`] of the multi handle that keeps the connection.
pub extern "C" fn on_close(user: *mut c_void, fd: curl_socket_t) -> c_int {
    guarded(user, (), |sockets| sockets.forget(fd, false));
    // SAFETY: libcurl hands over the descriptor to be closed.
    unsafe { libc::close(fd) }
}

fn guarded<R>(user: *mut c_void, failed: R, body: impl FnOnce(&mut Sockets) -> R) -> R {
    // SAFETY: `user` is the `Sockets` of a `Multi` that is alive and inside libcurl, on this thread: it reaches them only
    // between its calls.
    let sockets = unsafe { &mut *user.cast::<Sockets>() };
    catch_unwind(AssertUnwindSafe(|| body(sockets))).unwrap_or(failed)
}
