//! `raskio cp`: objects into files.
//!
//! | file | what |
//! |---|---|
//! | [`checksum`] | what the file must be |
//! | [`journal`] | which chunks of a file are there, so that an interrupted copy goes on |
//! | [`chunks`] | the reads: many at once, each written where it belongs |
//! | [`file`](mod@file) | one object into one file, from the first request to the rename |
//! | [`target`] | what is at the path, and how the new file takes its place |
//! | [`stream`] | one object onto standard output, a pipe or a device |
//! | [`progress`] | a bar on a terminal, lines elsewhere |

mod checksum;
mod chunks;
mod file;
mod journal;
mod progress;
mod stream;
mod target;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Output};
use crate::remote;
use crate::stop::Stop;
use checksum::Checksum;
use clap::ArgMatches;
use file::{Copy, How};
use progress::Progress;
use raskio::config::Overrides;
use raskio::endpoint::redact;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use target::Target;

/// Runs it.
pub fn run(matches: &ArgMatches, output: &Output) -> Outcome<()> {
    let aside = matches.get_one::<PathBuf>("to").is_some_and(|to| is_stdout(to));
    let output = &Output { aside, ..*output };
    all(matches, output).map_err(|failure| match failure {
        Reported(failure) => failure,
        New(failure) => output.failed("", failure),
    })
}

enum End {
    /// The user was told already.
    Reported(Failure),
    New(Failure),
}
use End::{New, Reported};

impl From<Failure> for End {
    fn from(failure: Failure) -> End {
        New(failure)
    }
}

fn all(matches: &ArgMatches, output: &Output) -> Result<(), End> {
    let arguments: Vec<String> = matches.get_many("url").into_iter().flatten().cloned().collect();
    let urls = remote::urls(&arguments)?;
    let to = matches.get_one::<PathBuf>("to").cloned().unwrap_or_default();
    let checksum = matches.get_one::<String>("checksum").map(|text| Checksum::parse(text)).transpose()?;
    if checksum.is_some() && urls.len() > 1 {
        return Err(Failure::usage("--checksum is for one URL; there are several").into());
    }
    let targets = destinations(&urls, &to)?;
    let jobs = match is_stdout(&to) {
        // One after the other.
        true => 1,
        false => (*matches.get_one::<u32>("jobs").unwrap_or(&1) as usize).min(urls.len()).max(1),
    };
    let memory = *matches.get_one::<u64>("memory").unwrap_or(&(256 << 20));
    // What has come is summed up and written on threads of its own, not on those that move bytes.
    let overrides = Overrides { callback_threads: Some(4), ..remote::overrides() };
    let client = remote::client(&overrides)?;
    let how = How {
        chunk: matches.get_one::<u64>("chunk-size").copied().unwrap_or(client.config().task_size),
        memory: memory / jobs as u64,
        restart: matches.get_flag("restart"),
        trust_size: matches.get_flag("trust-size"),
        no_clobber: matches.get_flag("no-clobber"),
        checksum,
        options: remote::object_options(matches),
    };
    // A write to a pipe that nobody reads could wait for ever, and there is nothing to leave in order.
    let is_stream = is_stdout(&to) || matches!(Target::at(&to), Ok(Target::Stream(_)));
    let stop = if is_stream { Stop::never() } else { Stop::on_signals()? };
    // Bytes and a bar on one terminal are neither.
    let mixed = is_stdout(&to) && std::io::stdout().is_terminal();
    let progress = Progress::new(matches.get_flag("quiet") || mixed);
    let (next, first) = (AtomicUsize::new(0), Mutex::new(None::<Failure>));
    let quiet = matches.get_flag("quiet");
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((url, to)) = targets.get(next.fetch_add(1, Relaxed)) {
                    if stop.signal().is_some() {
                        break;
                    }
                    let copy = Copy { client: &client, url, to, how: &how, stop: &stop };
                    match copy.run(&progress) {
                        Ok(summary) if !quiet || output.json => {
                            progress.suspend(|| output.result(|| summary.json(), || summary.text()));
                        }
                        Ok(_) => {}
                        Err(failure) => {
                            let failure = progress.suspend(|| output.failed(&redact::url(url), failure));
                            if let Ok(mut first) = first.lock() {
                                first.get_or_insert(failure);
                            }
                            // What comes behind a hole is worth nothing.
                            if output.aside {
                                break;
                            }
                        }
                    }
                }
            });
        }
    });
    match (first.into_inner().ok().flatten(), stop.signal()) {
        (Some(failure), _) => Err(Reported(failure)),
        // Between two objects.
        (None, Some(signal)) => Err(Failure::signal(signal, "interrupted").into()),
        (None, None) => Ok(()),
    }
}

fn is_stdout(to: &Path) -> bool {
    to == Path::new("-")
}

/// Where each URL goes.
fn destinations<'a>(urls: &'a [String], to: &Path) -> Outcome<Vec<(&'a str, PathBuf)>> {
    if is_stdout(to) {
        return Ok(urls.iter().map(|url| (url.as_str(), to.to_owned())).collect());
    }
    if let Some(url) = to.to_str().filter(|to| to.contains("://")) {
        let words = format!("{} is a URL; the last argument is the file or directory to write", redact::url(url));
        return Err(Failure::usage(words));
    }
    let is_directory = to.is_dir();
    let means_directory = is_directory || urls.len() > 1 || to.as_os_str().as_encoded_bytes().ends_with(b"/");
    if !means_directory {
        return Ok(urls.iter().map(|url| (url.as_str(), to.to_owned())).collect());
    }
    if !is_directory {
        // With slashes at its end even a file is not found.
        let there = to.components().as_path();
        let what_to_do = match (there.is_file(), urls.len()) {
            (true, 1) => "is a file; leave the slash behind its name out",
            (true, _) => "is a file, and several objects need a directory",
            (false, _) => "is no directory; make it first",
        };
        return Err(Failure::usage(format!("{} {what_to_do}", output::path(there))));
    }
    let mut targets: Vec<(&str, PathBuf)> = Vec::new();
    for url in urls {
        let path = to.join(file_name(url)?);
        if let Some((other, _)) = targets.iter().find(|(_, other)| collide(other, &path)) {
            return Err(Failure::usage(format!(
                "{} and {} would both become {}, or what is written on the way there; copy them into different directories",
                redact::url(other),
                redact::url(url),
                output::path(&path)
            )));
        }
        targets.push((url, path));
    }
    Ok(targets)
}

/// Whether copies into these two write to the same file.
fn collide(a: &Path, b: &Path) -> bool {
    let behind = |a: &Path, b: &Path| {
        let rest = a.as_os_str().as_encoded_bytes().strip_prefix(b.as_os_str().as_encoded_bytes());
        matches!(rest, Some(b"" | b".raskio-part" | b".raskio-journal"))
    };
    behind(a, b) || behind(b, a)
}

/// The last part of a URL's path, its escapes resolved, as the name of a file.
fn file_name(url: &str) -> Outcome<OsString> {
    let name = match url.split_once("://") {
        Some((_, rest)) => {
            let path = rest.split(['?', '#']).next().unwrap_or(rest);
            unescaped(path.rsplit_once('/').map_or("", |(_, last)| last))
        }
        // The path of a file is as it is.
        None => url.rsplit('/').next().unwrap_or(url).as_bytes().to_owned(),
    };
    let usable = !matches!(&name[..], b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0);
    match usable {
        true => Ok(OsString::from_vec(name)),
        false => Err(Failure::usage(format!("{} names no file; say which one to write", redact::url(url)))),
    }
}

/// Escapes of what could command a terminal stay escapes.
fn unescaped(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).filter(|two| bytes[at] == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        match escape.and_then(|two| std::str::from_utf8(two).ok()).and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if byte == 0 || !byte.is_ascii_control() => (out.push(byte), at += 3).1,
            _ => (out.push(bytes[at]), at += 1).1,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_the_end_of_the_path() {
        for (url, name) in [
            ("http://host/a/b.bin", "b.bin"),
            ("https://host/a%20b?X-Amz-Signature=/x", "a b"),
            ("s3://bucket/dir/key", "key"),
            ("http://host/100%", "100%"),
            ("file:///a/b%20c", "b c"),
            ("/a/what?%20", "what?%20"),
            ("relative", "relative"),
            ("http://host/a%1b%5b2J%0a", "a%1b[2J%0a"),
        ] {
            assert_eq!(file_name(url).unwrap(), name);
        }
        for url in [
            "http://host",
            "http://host/",
            "http://host/a/",
            "http://host/..",
            "http://host/a%2Fb",
            "http://host/%2e%2e",
        ] {
            assert!(file_name(url).is_err(), "{url}");
        }
    }

    #[test]
    fn two_objects_do_not_become_one_file() {
        let urls = ["http://host/a/x".to_owned(), "http://host/b/x".to_owned()];
        let message = destinations(&urls, &std::env::temp_dir()).unwrap_err().message;
        assert!(message.contains("http://host/a/x") && message.contains("http://host/b/x"), "{message}");
        // What is written on the way to the one is the other.
        for other in ["x.raskio-part", "x.raskio-journal"] {
            let mut urls = [format!("http://host/{other}"), "http://host/x".to_owned()];
            assert!(destinations(&urls, &std::env::temp_dir()).is_err());
            urls.reverse();
            assert!(destinations(&urls, &std::env::temp_dir()).is_err());
        }
        assert!(destinations(&["http://host/x".into(), "http://host/xy".into()], &std::env::temp_dir()).is_ok());
    }

    #[test]
    fn a_file_where_a_directory_belongs_is_told_of_as_a_file() {
        let file = std::env::current_exe().unwrap();
        let slashed = PathBuf::from(format!("{}//", file.display()));
        let (one, two) = (["http://host/a".to_owned()], ["http://host/a".to_owned(), "http://host/b".to_owned()]);
        for (urls, to, words) in [
            (&one[..], &slashed, "is a file; leave the slash"),
            (&two[..], &slashed, "is a file, and several objects need"),
            (&two[..], &file, "is a file, and several objects need"),
            (&one[..], &PathBuf::from("/no/such/"), "/no/such is no directory; make it first"),
        ] {
            let message = destinations(urls, to).unwrap_err().message;
            assert!(message.contains(words), "{message}");
        }
    }
}
