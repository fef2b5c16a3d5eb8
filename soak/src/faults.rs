//! What the servers do wrong, how often, and which errors that explains.

use crate::data::{etag, rng};
use raskio::error::ErrorKind::{self, Connection, Http, NotFound, ObjectChanged, PermissionDenied, Unavailable};
use raskio::error::ErrorKind::{Range, TimedOut, Unsupported};
use raskio_testserver::Reply;
use std::time::{Duration, SystemTime};

/// A request for a part of an object.
pub struct Ask {
    /// The object.
    pub object: u32,
    /// Its size.
    pub total: u64,
    /// First byte asked for.
    pub start: u64,
    /// Bytes asked for.
    pub len: u64,
    /// The client knows size and entity tag already, so a lie about them cannot pass.
    pub known: bool,
}

/// A fault, as it is planted.
pub struct Planted {
    /// What the server does.
    pub reply: Reply,
    /// Errors that it explains. None: the reply is right, if odd.
    pub kinds: &'static [ErrorKind],
    /// The operation must fail if this is its last reply: no retry gets over it.
    pub fatal: bool,
}

/// A row of the table.
pub struct Fault {
    /// For the report.
    pub name: &'static str,
    /// How often, beside the others.
    weight: u32,
    /// It can happen to a reply that has no body: it is a matter of the connection or the status.
    pub bodiless: bool,
    plant: fn(&Ask, &mut fastrand::Rng) -> Planted,
}

fn odd(reply: Reply) -> Planted {
    Planted { reply, kinds: &[], fatal: false }
}

fn passing(reply: Reply, kinds: &'static [ErrorKind]) -> Planted {
    Planted { reply, kinds, fatal: false }
}

fn fatal(reply: Reply, kinds: &'static [ErrorKind]) -> Planted {
    Planted { reply, kinds, fatal: true }
}

fn ms(rng: &mut fastrand::Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

/// A whole body in a tenth of a second to one.
fn slow(ask: &Ask, rng: &mut fastrand::Rng) -> Reply {
    Reply::object().rate(((ask.len as f64 / (0.1 + 0.9 * rng.f64())) as u64).max(1))
}

/// An error that a retry gets over, with a Retry-After in one of its ways, and a body that may be longer than is read.
fn overloaded(status: u16, rng: &mut fastrand::Rng) -> Planted {
    let reply = Reply::status(status).body(vec![b'x'; [0, 10, 3000, 100_000][rng.usize(0..4)]]);
    let reply = match rng.u32(0..4) {
        0 => reply.retry_after(0),
        1 => reply.retry_after_date(SystemTime::now() - Duration::from_secs(100)),
        2 => reply.header("Retry-After", "soon"),
        _ => reply,
    };
    passing(reply, &[Unavailable])
}

/// A lie about the object: it can only pass where nothing is known yet, and then the truth looks like the lie.
fn about_object(ask: &Ask, reply: Reply) -> Planted {
    Planted { reply, kinds: &[ObjectChanged], fatal: ask.known }
}

macro_rules! table {
    ($($name:literal $weight:literal $(($bodiless:ident))? |$ask:pat_param, $rng:pat_param| $plant:expr;)*) => {
        /// Every fault; their numbers are their places, from 1.
        pub const FAULTS: &[Fault] = &[$(Fault {
            name: $name,
            weight: $weight,
            // `true` where the row says so.
            bodiless: [$(!stringify!($bodiless).is_empty(),)? false][0],
            plant: |$ask, $rng| $plant,
        }),*];
    };
}

table! {
    // Odd, and right.
    "delay" 30 (bodiless) |_, rng| odd(Reply::object().delay(ms(rng, 2..150)));
    "delay of the body" 10 |_, rng| odd(Reply::object().delay_body(ms(rng, 2..150)));
    "throttle" 20 |ask, rng| odd(slow(ask, rng));
    "chunked" 6 |_, _| odd(Reply::object().chunked());
    "HTTP/1.0" 4 |_, _| odd(Reply::object().http10());
    "no length" 4 |_, _| odd(Reply::object().without_header("Content-Length"));
    "no total" 4 |_, _| odd(Reply::object().unknown_total());
    "announced close" 6 (bodiless) |_, _| odd(Reply::object().announce_close());
    "silent close" 10 (bodiless) |_, _| odd(Reply::object().close_silently());
    "interim reply" 4 (bodiless) |_, _| odd(Reply::object().interim(103, &[("ETag", "\"early\"")]));
    "many headers" 3 (bodiless) |_, _| odd(Reply::object().filler_headers(40, 2000));
    "surplus behind the length" 4 |_, rng| odd(Reply::object().extra_body(rng.u64(1..5000)).announce_close());
    "redirect to itself" 3 |ask, _| Planted {
        reply: Reply::redirect(307, &format!("/o{}", ask.object)),
        // Too many, if it happens every time.
        kinds: &[Http],
        fatal: false,
    };
    // A retry gets over it.
    "503 and its like" 14 (bodiless) |_, rng| overloaded([500, 502, 503, 504][rng.usize(0..4)], rng);
    "429" 6 (bodiless) |_, rng| overloaded(429, rng);
    "408" 1 (bodiless) |_, _| passing(Reply::status(408), &[TimedOut]);
    "408 as of an idle connection" 2 (bodiless) |_, _| passing(Reply::status(408).announce_close(), &[TimedOut]);
    "503 that breaks off" 3 (bodiless) |_, _| passing(
        Reply::status(503).body(vec![b'x'; 2000]).close_after(1000),
        &[Unavailable],
    );
    "close at once" 6 (bodiless) |_, _| passing(Reply::close(), &[Connection]);
    "reset at once" 6 (bodiless) |_, _| passing(Reply::reset(), &[Connection]);
    "close in the head" 3 |_, _| passing(Reply::raw(*b"HTTP/1.1 206 Partial Content\r\nContent-Le"), &[Connection]);
    "close in the body" 10 |ask, rng| passing(Reply::object().close_after(rng.u64(0..ask.len)), &[Connection]);
    "reset in the body" 10 |ask, rng| passing(Reply::object().reset_after(rng.u64(0..ask.len)), &[Connection]);
    "reset in a chunked body" 3 |ask, rng| passing(
        Reply::object().chunked().reset_after(rng.u64(0..ask.len)),
        &[Connection],
    );
    "short range" 5 |ask, rng| match ask.len {
        1 => odd(Reply::object()),
        len => passing(Reply::object().short_range_by(rng.u64(1..len)), &[Range]),
    };
    "short body" 5 |ask, rng| passing(Reply::object().short_by(rng.u64(1..=ask.len)), &[Range]);
    "a length that is too small" 3 |ask, rng| passing(
        Reply::object().header("Content-Length", &rng.u64(0..ask.len).to_string()).announce_close(),
        &[Range],
    );
    "no answer" 2 (bodiless) |_, _| passing(Reply::never(), &[TimedOut]);
    "stall in the body" 3 |ask, rng| passing(Reply::object().stall_after(rng.u64(0..ask.len)), &[TimedOut]);
    // No retry gets over it.
    "404" 2 (bodiless) |_, _| fatal(Reply::status(404), &[NotFound]);
    "410" 1 (bodiless) |_, _| fatal(Reply::status(410), &[NotFound]);
    "401" 1 (bodiless) |_, _| fatal(Reply::status(401), &[PermissionDenied]);
    "403" 2 (bodiless) |_, _| fatal(Reply::status(403), &[PermissionDenied]);
    "400" 1 |_, _| fatal(Reply::status(400), &[Http]);
    "412" 1 |_, _| fatal(Reply::status(412), &[ObjectChanged]);
    "416" 1 |_, _| fatal(Reply::status(416), &[Range]);
    "no HTTP" 2 |_, _| fatal(Reply::garbage(), &[Unsupported, Connection]);
    "redirect out of HTTP" 1 |_, _| fatal(Reply::redirect(302, "ftp://127.0.0.1/"), &[Http]);
    "200 on a part" 2 |_, _| fatal(Reply::object().with_status(200), &[Range]);
    "204" 1 |_, _| fatal(Reply::object().with_status(204), &[Http]);
    "304" 1 |_, _| fatal(Reply::object().with_status(304), &[Http]);
    "200 with everything" 1 |_, _| fatal(Reply::object().ignore_range(), &[Range]);
    "another range" 2 |ask, _| fatal(Reply::object().answer_range(ask.start - 1, ask.start + ask.len - 1), &[Range]);
    "a range that is a lie" 2 |ask, _| fatal(
        Reply::object().header("Content-Range", &format!("bytes {}-{}/*", ask.start + 1, ask.start + ask.len)),
        &[Range],
    );
    "a range that makes no sense" 1 |_, _| fatal(Reply::object().header("Content-Range", "bytes banana"), &[Range]);
    "no range" 1 |_, _| fatal(Reply::object().without_header("Content-Range"), &[Range]);
    "multipart" 1 |_, _| fatal(Reply::object().multipart(), &[Range]);
    "a length that is too large" 2 |ask, _| fatal(
        Reply::object().header("Content-Length", &(ask.len + 7).to_string()).announce_close(),
        &[Range],
    );
    "surplus in chunks" 2 |_, rng| fatal(Reply::object().chunked().extra_body(rng.u64(1..5000)), &[Range]);
    "encoding in name" 1 |_, _| fatal(Reply::object().header("Content-Encoding", "gzip"), &[Range]);
    "encoding in truth" 1 |_, _| fatal(Reply::object().gzip_always(), &[Range]);
    "another size" 2 |ask, _| about_object(ask, Reply::object().total(ask.total + 1));
    "another ETag" 2 |_ask, _| about_object(_ask, Reply::object().header("ETag", "\"another\""));
    "another, weak ETag" 1 |ask, _| about_object(ask, Reply::object().header("ETag", &format!("W/{}", etag(ask.object))));
}

/// Which fault, if any, happens to request number `nth` of operation `id`: its number. `share`: of a million requests.
pub fn choose(seed: u64, id: u64, start: u64, nth: u16, share: u32, cursed: bool, bodiless: bool) -> Option<u8> {
    let fits = |fault: &&Fault| fault.bodiless || !bodiless;
    let mut rng = match cursed {
        // The same every time, and nothing that takes minutes if it happens seventeen times in a row.
        true => rng(seed, &[2, id]),
        false => rng(seed, &[3, id, start, u64::from(nth)]),
    };
    if !cursed && rng.u32(0..1_000_000) >= share {
        return None;
    }
    loop {
        let mut at = rng.u32(0..FAULTS.iter().filter(fits).map(|fault| fault.weight).sum());
        let chosen = FAULTS.iter().enumerate().filter(|(_, fault)| fits(fault)).find(|(_, fault)| {
            let here = at < fault.weight;
            at = at.saturating_sub(fault.weight);
            here
        });
        match chosen {
            Some((_, fault)) if cursed && fault.name == "stall in the body" => {}
            Some((index, _)) => return Some(index as u8 + 1),
            None => return None,
        }
    }
}

/// Fault number `number` for this request.
pub fn plant(number: u8, ask: &Ask, seed: u64, id: u64, nth: u16) -> Planted {
    let mut rng = rng(seed, &[4, id, ask.start, u64::from(nth)]);
    (FAULTS[usize::from(number) - 1].plant)(ask, &mut rng)
}

/// The name of a fault number.
pub fn name(number: u8) -> &'static str {
    FAULTS.get(usize::from(number).wrapping_sub(1)).map_or("?", |fault| fault.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_comes_up_and_nothing_but_faults_comes_up() {
        let mut seen = vec![0_u32; FAULTS.len()];
        for id in 0..20_000 {
            let number = choose(1, id, 5, 0, 1_000_000, false, false).expect("every request");
            seen[usize::from(number) - 1] += 1;
            let bodiless = choose(1, id, 5, 0, 1_000_000, false, true).expect("every request");
            assert!(FAULTS[usize::from(bodiless) - 1].bodiless);
        }
        for (fault, seen) in FAULTS.iter().zip(seen) {
            assert!(seen > 20 * fault.weight, "{}: {seen}", fault.name);
        }
        assert_eq!(choose(1, 1, 5, 0, 0, false, false), None);
    }
}
