//! Memory whose size is the caller's to choose: what cannot be had is an error, and not the end of the process.

use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::hash::Hash;

/// An empty vector with room for `count`. `what`: what for, as in "no memory to queue it".
///
/// # Errors
/// OUT_OF_MEMORY.
pub fn vec<T>(count: usize, what: impl FnOnce() -> String) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(count).map_err(|_| none(what))?;
    Ok(vec)
}

/// Appends `one`.
///
/// # Errors
/// OUT_OF_MEMORY.
pub fn push<T>(to: &mut Vec<T>, one: T, what: impl FnOnce() -> String) -> Result<()> {
    room(to, 1, what)?;
    to.push(one);
    Ok(())
}

/// Makes room for `more`.
///
/// # Errors
/// OUT_OF_MEMORY.
pub fn room<T>(of: &mut Vec<T>, more: usize, what: impl FnOnce() -> String) -> Result<()> {
    of.try_reserve(more).map_err(|_| none(what))
}

/// Makes room for one more.
///
/// # Errors
/// OUT_OF_MEMORY.
pub fn map<K: Eq + Hash, V>(of: &mut HashMap<K, V>, what: impl FnOnce() -> String) -> Result<&mut HashMap<K, V>> {
    of.try_reserve(1).map_err(|_| none(what))?;
    Ok(of)
}

/// Whether `count` small pieces, of `bytes` each, can be had now. Each for itself ends the process if it cannot, so they are
/// asked for in one first.
///
/// # Errors
/// OUT_OF_MEMORY.
pub fn check(count: usize, bytes: usize, what: impl FnOnce() -> String) -> Result<()> {
    let mut all = Vec::<u8>::new();
    let reserved = count.checked_mul(bytes).is_some_and(|bytes| all.try_reserve_exact(bytes).is_ok());
    // The compiler may leave out memory that nobody looks at.
    std::hint::black_box(&all);
    if reserved { Ok(()) } else { Err(none(what)) }
}

fn none(what: impl FnOnce() -> String) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("no memory {}", what()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(raskio_sanitizer = "address", ignore = "the sanitizer ends the process where memory runs out")]
    fn what_cannot_be_had_is_an_error() {
        let what = || "for this".to_owned();
        for error in [
            vec::<u64>(usize::MAX / 8, what).unwrap_err(),
            check(1 << 33, 1 << 33, what).unwrap_err(),
            check(usize::MAX / 4, 2, what).unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.message()), (ErrorKind::OutOfMemory, "no memory for this"));
        }
        let mut three = vec(1, what).unwrap();
        (0..3).for_each(|one| push(&mut three, one, what).unwrap());
        assert_eq!(three, [0, 1, 2]);
        check(1000, 100, what).unwrap();
    }
}
