//! Clients and objects, as the command line and the environment want them.

use crate::failure::{Failure, Outcome};
use crate::memory::Memory;
use crate::stop::{LOOK, Stop};
use clap::ArgMatches;
use raskio::client::Client;
use raskio::config::{Backend, Config, Overrides};
use raskio::error::{Error, ErrorKind};
use raskio::object::{Object, ObjectOptions, ReadOptions};
use raskio::op::{OpResult, Operation};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

/// The kinds of endpoints by their names on the command line; the numbers are the C API's `RASKIO_ENDPOINT_*`.
pub const KINDS: [(&str, u32); 6] =
    [("http", 1), ("s3", 2), ("s3-public", 3), ("s3-presigned", 4), ("webhdfs", 5), ("file", 6)];

/// The name of an endpoint kind.
pub fn kind_name(number: u32) -> String {
    KINDS.iter().find(|row| row.1 == number).map_or_else(|| format!("kind {number}"), |row| row.0.into())
}

/// Settings of the environment, and MULTI_POLL where it names no backend: what this tool moves is large.
pub fn overrides() -> Overrides {
    let named = std::env::var_os("KVIKIO_REMOTE_IO_BACKEND").is_some();
    Overrides { backend: (!named).then_some(Backend::MultiPoll), ..Overrides::default() }
}

/// A client.
pub fn client(overrides: &Overrides) -> Outcome<Arc<Client>> {
    Ok(Client::new(Config::from_env(overrides)?, None)?)
}

/// How objects are opened. Credentials are found by the library: in the environment, in files, at metadata services.
pub fn object_options(matches: &ArgMatches) -> ObjectOptions {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let kind = text("kind").and_then(|name| KINDS.iter().find(|row| row.0 == name).map(|row| row.1));
    ObjectOptions {
        endpoint: kind,
        region: text("region"),
        endpoint_url: text("endpoint-url"),
        ca_file: text("ca-file"),
        ..ObjectOptions::default()
    }
}

/// The URLs of the command line; those of `@FILE` are read from it, one a line.
pub fn urls(arguments: &[String]) -> Outcome<Vec<String>> {
    let mut urls = Vec::new();
    for argument in arguments {
        let Some(path) = argument.strip_prefix('@') else {
            urls.push(argument.clone());
            continue;
        };
        let text = std::fs::read_to_string(path).map_err(|error| Failure::file("read", path.as_ref(), &error))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let before = urls.len();
        urls.extend(lines.map(str::to_owned));
        if urls.len() == before {
            return Err(Failure::usage(format!("{path} holds no URL; there should be one a line")));
        }
    }
    Ok(urls)
}

/// Waits for something that reads send.
///
/// # Errors
/// A signal came.
pub fn wait<T>(from: &Receiver<T>, stop: &Stop) -> Outcome<T> {
    loop {
        if let Some(signal) = stop.signal() {
            return Err(Failure::signal(signal, "interrupted"));
        }
        match from.recv_timeout(LOOK) {
            Ok(sent) => return Ok(sent),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Internal, "an operation ended without its completion").into());
            }
        }
    }
}

/// The size of an object, asked for; a signal ends the waiting.
pub fn size(object: &Arc<Object>, stop: &Stop) -> Outcome<u64> {
    let (to, from) = channel();
    let done = Box::new(move |result: &OpResult<'_>| {
        // Whoever was interrupted does not listen any more.
        let _ = to.send(result.error.cloned());
    });
    let pending = object.stat(&ReadOptions::default(), done)?;
    let op = pending.op().clone();
    pending.submit();
    if let Some(error) = wait(&from, stop).inspect_err(|_| op.cancel())? {
        return Err(error.into());
    }
    object.size().ok_or_else(|| Error::new(ErrorKind::Internal, "the size is unknown after a stat").into())
}

/// Reads into `memory` and calls `done` with it, on a RaskIO thread.
///
/// # Errors
/// Of a read that was not begun; `done` is dropped then.
pub fn read(
    object: &Arc<Object>,
    offset: u64,
    len: u64,
    mut memory: Memory,
    options: &ReadOptions,
    done: impl FnOnce(Memory, Result<u64, Error>) + Send + 'static,
) -> Result<Arc<Operation>, Error> {
    let buffer = memory.lend(len);
    let completion = Box::new(move |result: &OpResult<'_>| {
        done(memory, result.error.map_or(Ok(result.bytes), |error| Err(error.clone())));
    });
    let pending = object.read(offset, buffer, options, completion)?;
    let op = pending.op().clone();
    pending.submit();
    Ok(op)
}
