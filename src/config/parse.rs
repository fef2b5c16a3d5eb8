//! One value of one setting: read, checked, and named in the error if it is bad.

use super::{Backend, Concurrency, Dispatch, LocalBackend};
use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Looks an environment variable up.
pub(super) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Most characters of a bad value that an error repeats.
const SHOWN_CHARS: usize = 80;

/// HTTP statuses that can be named for a retry.
const STATUS_RANGE: RangeInclusive<u16> = 100..=599;

/// A number with its limits, whichever way it is set.
pub(super) struct Number<T> {
    /// The environment variables that set it: the first is the name, the others its aliases.
    pub variables: &'static [&'static str],
    /// The client option that sets it; empty if none does.
    pub option: &'static str,
    pub range: RangeInclusive<T>,
    /// What the number counts, and what its special values mean; ends the sentence in an error.
    pub unit: &'static str,
}

impl<T: Copy + Display + FromStr + PartialOrd> Number<T> {
    /// The environment's value. It is checked even where an option overrides it: a typing error is worth knowing of.
    pub fn lookup(&self, env: Env<'_>) -> Result<Option<T>> {
        let mut found: Option<(&str, T)> = None;
        for name in self.variables {
            let allowed = || self.allowed();
            let Some(value) =
                from_env(env, name, &allowed, |text| text.parse().ok().filter(|number| self.range.contains(number)))?
            else {
                continue;
            };
            match found {
                Some((first, other)) if other != value => {
                    return Err(Error::invalid(format!(
                        "{first} is {other} but its alias {name} is {value}; set one of them, or both to the same value"
                    )));
                }
                Some(_) => {}
                None => found = Some((name, value)),
            }
        }
        Ok(found.map(|(_, value)| value))
    }

    /// The option's value.
    pub fn check(&self, value: Option<T>) -> Result<Option<T>> {
        match value {
            Some(value) if !self.range.contains(&value) => {
                Err(bad(&format!("option {}", self.option), &value.to_string(), &self.allowed()))
            }
            value => Ok(value),
        }
    }

    /// The option's value, else the environment's, else `default`.
    pub fn resolve(&self, env: Env<'_>, option: Option<T>, default: T) -> Result<T> {
        let from_env = self.lookup(env)?;
        Ok(self.check(option)?.or(from_env).unwrap_or(default))
    }

    fn allowed(&self) -> String {
        format!("an integer from {} to {}{}", self.range.start(), self.range.end(), self.unit)
    }
}

/// KVIKIO_REMOTE_IO_BACKEND.
pub(super) fn backend(env: Env<'_>) -> Result<Option<Backend>> {
    word(
        env,
        "KVIKIO_REMOTE_IO_BACKEND",
        &[("EASY_THREADPOOL", Backend::EasyThreadpool), ("MULTI_POLL", Backend::MultiPoll)],
    )
}

/// KVIKIO_REMOTE_IO_REACTOR_DISPATCH.
pub(super) fn dispatch(env: Env<'_>) -> Result<Option<Dispatch>> {
    word(
        env,
        "KVIKIO_REMOTE_IO_REACTOR_DISPATCH",
        &[("PER_CHUNK", Dispatch::PerChunk), ("PER_PREAD", Dispatch::PerPread)],
    )
}

/// RASKIO_CONCURRENCY.
pub(super) fn concurrency(env: Env<'_>) -> Result<Option<Concurrency>> {
    word(env, "RASKIO_CONCURRENCY", &[("ADAPTIVE", Concurrency::Adaptive), ("FIXED", Concurrency::Fixed)])
}

/// RASKIO_LOCAL_BACKEND.
pub(super) fn local_backend(env: Env<'_>) -> Result<Option<LocalBackend>> {
    word(
        env,
        "RASKIO_LOCAL_BACKEND",
        &[("AUTO", LocalBackend::Auto), ("URING", LocalBackend::Uring), ("PREAD", LocalBackend::Pread)],
    )
}

/// A variable that is on or off.
pub(super) fn switch(env: Env<'_>, name: &'static str) -> Result<Option<bool>> {
    word(
        env,
        name,
        &[
            ("on", true),
            ("off", false),
            ("true", true),
            ("false", false),
            ("yes", true),
            ("no", false),
            ("1", true),
            ("0", false),
        ],
    )
}

/// KVIKIO_HTTP_STATUS_CODES. Empty is as good as unset, as in KvikIO.
pub(super) fn statuses_from_env(env: Env<'_>) -> Result<Option<Vec<u16>>> {
    let codes = from_env(env, "KVIKIO_HTTP_STATUS_CODES", &statuses_allowed, |text| {
        if text.is_empty() {
            return Some(None);
        }
        let codes: Option<Vec<u16>> =
            text.split(',').map(|code| code.trim().parse().ok().filter(|code| STATUS_RANGE.contains(code))).collect();
        codes.map(Some)
    })?;
    Ok(codes.flatten().map(sorted))
}

/// `retry_status`. Empty: no status is worth a retry.
pub(super) fn statuses_from_option(codes: Option<&[u16]>) -> Result<Option<Vec<u16>>> {
    let Some(codes) = codes else { return Ok(None) };
    match codes.iter().find(|code| !STATUS_RANGE.contains(code)) {
        Some(code) => Err(bad("option retry_status", &code.to_string(), &statuses_allowed())),
        None => Ok(Some(sorted(codes.to_vec()))),
    }
}

fn statuses_allowed() -> String {
    format!("HTTP statuses from {} to {}, separated by commas", STATUS_RANGE.start(), STATUS_RANGE.end())
}

fn sorted(mut codes: Vec<u16>) -> Vec<u16> {
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn word<T: Copy>(env: Env<'_>, name: &str, words: &[(&str, T)]) -> Result<Option<T>> {
    let allowed = || {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        format!("one of {}", names.join(", "))
    };
    from_env(env, name, &allowed, |text| {
        words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
    })
}

/// Looks `name` up and hands its text, blanks around it removed, to `parse`, which answers `None` for a bad value.
fn from_env<T>(
    env: Env<'_>,
    name: &str,
    allowed: &dyn Fn() -> String,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(value) = env(name) else { return Ok(None) };
    match value.to_str().and_then(|text| parse(text.trim())) {
        Some(value) => Ok(Some(value)),
        None => Err(bad(name, &quoted(&value.to_string_lossy()), &allowed())),
    }
}

/// The one wording of a bad value.
pub(super) fn bad(name: &str, value: &str, allowed: &str) -> Error {
    Error::invalid(format!("{name} is {value}; it must be {allowed}"))
}

fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(SHOWN_CHARS).is_some() { " (cut)" } else { "" };
    format!("\"{shown}\"{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_or_dirty_value_is_cut_and_escaped() {
        assert_eq!(quoted("a\"b\n\u{1b}[2J"), r#""a\"b\n\u{1b}[2J""#);
        assert_eq!(quoted(&"x".repeat(80)), format!("\"{}\"", "x".repeat(80)));
        assert_eq!(quoted(&"x".repeat(81)), format!("\"{}\" (cut)", "x".repeat(80)));
    }
}
