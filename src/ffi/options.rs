//! How option structs cross the boundary: they grow at their tail, and nothing in them is ever silently dropped.

use super::null;
use crate::error::{Error, ErrorKind, Result};
use std::ptr;

/// Larger than any struct of this API will be: beyond it, `struct_size` was not set.
const SANE_SIZE: usize = 1 << 16;

/// A struct of the C API that begins with `struct_size` and grows at its tail.
///
/// # Safety
/// `#[repr(C)]`, its first field is the `usize` named `struct_size`, it has no padding, and every bit pattern of
/// every field is valid (integers, pointers, `Option` of a function pointer).
pub(super) unsafe trait Versioned: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// Its size when it was first published. Never changes.
    const VERSION_1: usize;
}

/// The claimed size, if it can be one.
///
/// # Safety
/// `from` is not NULL and points to a struct whose first field is `struct_size`.
unsafe fn struct_size<T: Versioned>(from: *const T) -> Result<usize> {
    // SAFETY: promised by the caller.
    let size = unsafe { from.cast::<usize>().read() };
    if size > SANE_SIZE {
        return Err(Error::invalid(format!(
            "struct_size of {} is {size}; set it to sizeof({}) and zero the rest",
            T::NAME,
            T::NAME
        )));
    }
    Ok(size)
}

/// Copies an input struct; `None` for NULL. Fields that the caller's older header did not have are zero.
///
/// # Errors
/// INVALID_ARGUMENT: smaller than the first version. UNSUPPORTED: a field that this library does not know is not
/// zero.
///
/// # Safety
/// `from` is NULL or points to `struct_size` readable bytes.
pub(super) unsafe fn read<T: Versioned>(from: *const T) -> Result<Option<T>> {
    const { assert!(T::VERSION_1 <= size_of::<T>(), "structs only grow") };
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL; promised by the caller.
    let size = unsafe { struct_size(from) }?;
    if size < T::VERSION_1 {
        return Err(Error::invalid(format!(
            "struct_size of {} is {size}, smaller than its first version ({}); set it to sizeof({})",
            T::NAME,
            T::VERSION_1,
            T::NAME
        )));
    }
    let known = size_of::<T>();
    // SAFETY: the caller promised `size` readable bytes, and size is within SANE_SIZE.
    let tail = (known..size).find(|&at| unsafe { from.cast::<u8>().add(at).read() } != 0);
    if let Some(at) = tail {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} sets an option at byte {at}, which this version of RaskIO ({}) does not have; use a newer \
                 library, or leave that option zero",
                T::NAME,
                env!("CARGO_PKG_VERSION")
            ),
        ));
    }
    let mut copy = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: both sides hold min(size, known) bytes, and every bit pattern is a valid T.
    Ok(Some(unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), size.min(known));
        copy.assume_init()
    }))
}

/// Fills an output struct: at most `struct_size` bytes are written, `struct_size` itself is not, and fields that this
/// library does not know become zero.
///
/// # Errors
/// INVALID_ARGUMENT: NULL, or a `struct_size` that does not even hold itself.
///
/// # Safety
/// `to` is NULL or points to `struct_size` writable bytes of which the first field is set.
pub(super) unsafe fn write<T: Versioned>(to: *mut T, parameter: &str, value: &T) -> Result<()> {
    if to.is_null() {
        return Err(null(parameter, T::NAME));
    }
    // SAFETY: not NULL; promised by the caller.
    let size = unsafe { struct_size(to) }?;
    let head = size_of::<usize>();
    if size < head {
        return Err(Error::invalid(format!(
            "struct_size of {} is {size}; it is an input here: set it to sizeof({})",
            T::NAME,
            T::NAME
        )));
    }
    let known = size_of::<T>().min(size);
    // SAFETY: the caller promised `size` writable bytes; the source holds at least `known`. T has no padding.
    unsafe {
        let source = ptr::from_ref(value).cast::<u8>();
        ptr::copy_nonoverlapping(source.add(head), to.cast::<u8>().add(head), known - head);
        ptr::write_bytes(to.cast::<u8>().add(known), 0, size - known);
    }
    Ok(())
}

/// A number of which zero means the default.
pub(super) fn set<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// A number that stands for one of a few names.
///
/// # Errors
/// INVALID_ARGUMENT naming the value and what is allowed.
pub(super) fn choice<T: Copy>(option: &str, value: u32, allowed: &[(u32, &str, T)]) -> Result<T> {
    allowed.iter().find(|row| row.0 == value).map(|row| row.2).ok_or_else(|| {
        let names: Vec<String> = allowed.iter().map(|row| format!("{} ({})", row.1, row.0)).collect();
        Error::invalid(format!("{option} is {value}; allowed are {}", names.join(", ")))
    })
}

/// A field kept for later.
///
/// # Errors
/// INVALID_ARGUMENT when it is not zero.
pub(super) fn reserved(field: &str, value: u32) -> Result<()> {
    if value != 0 {
        return Err(Error::invalid(format!("{field} is {value}; it must be zero: zero the struct before you fill it")));
    }
    Ok(())
}

/// Flags that this library knows. Of those that it knows elsewhere: their names, and where.
///
/// # Errors
/// UNSUPPORTED naming the others.
pub(super) fn flags(field: &str, value: u32, known: u32, elsewhere: &[(u32, &str, &str)]) -> Result<()> {
    if let Some((_, name, place)) = elsewhere.iter().find(|(flag, ..)| value & !known & flag != 0) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("{field} has {name} set, which is for {place}; leave it out here"),
        ));
    }
    if value & !known != 0 {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{field} has {:#x} set, which this version of RaskIO ({}) does not know; known are {known:#x}",
                value & !known,
                env!("CARGO_PKG_VERSION")
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Grown {
        struct_size: usize,
        first: u64,
        later: u64,
    }
    // SAFETY: repr(C), struct_size first, only integers, no padding.
    unsafe impl Versioned for Grown {
        const NAME: &'static str = "grown";
        const VERSION_1: usize = 16;
    }

    /// What `read` makes of this many of these words.
    fn input(words: &[usize]) -> Result<Option<Grown>> {
        // SAFETY: each test claims at most the bytes that `words` holds, unless that is what is refused first.
        unsafe { read(words.as_ptr().cast::<Grown>()) }
    }

    #[test]
    fn sizes_old_and_new_are_read_and_nothing_is_dropped() {
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { read::<Grown>(ptr::null()) }.unwrap(), None);
        assert_eq!(input(&[16, 5, 77]).unwrap(), Some(Grown { struct_size: 16, first: 5, later: 0 }));
        assert_eq!(input(&[24, 5, 6]).unwrap(), Some(Grown { struct_size: 24, first: 5, later: 6 }));
        assert_eq!(input(&[40, 5, 6, 0, 0]).unwrap(), Some(Grown { struct_size: 40, first: 5, later: 6 }));
        for (words, kind) in [
            (&[0usize, 0, 0, 0][..], ErrorKind::InvalidArgument),
            (&[15, 5, 6, 0], ErrorKind::InvalidArgument),
            (&[usize::MAX, 5, 6, 0], ErrorKind::InvalidArgument),
            (&[32, 5, 6, 1 << 56], ErrorKind::Unsupported),
        ] {
            let error = input(words).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.message().contains("grown"), "{error}");
        }
    }

    #[test]
    fn outputs_stay_within_the_size_given() {
        let value = Grown { struct_size: 24, first: 5, later: 6 };
        for (size, expected) in
            [(8usize, [8usize, 9, 9, 9, 9]), (16, [16, 5, 9, 9, 9]), (24, [24, 5, 6, 9, 9]), (32, [32, 5, 6, 0, 9])]
        {
            let mut words = [size, 9, 9, 9, 9];
            // SAFETY: the array holds every size above.
            unsafe { write(words.as_mut_ptr().cast::<Grown>(), "out", &value) }.unwrap();
            assert_eq!(words, expected);
        }
        let mut words = [7usize, 9, 9];
        // SAFETY: refused by its size; NULL is refused too.
        unsafe {
            assert!(write(words.as_mut_ptr().cast::<Grown>(), "out", &value).is_err());
            assert!(write(ptr::null_mut(), "out", &value).is_err());
        }
    }

    #[test]
    fn values_out_of_range_name_what_is_allowed() {
        let error = choice("colour", 7, &[(0, "RED", 'r'), (1, "BLUE", 'b')]).unwrap_err();
        assert_eq!(error.message(), "colour is 7; allowed are RED (0), BLUE (1)");
        let elsewhere = [(4, "WRITTEN", "writes"), (2, "READ", "reads")];
        let error = flags("flags", 10, 3, &elsewhere).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().starts_with("flags has 0x8 set"), "{error}");
        let error = flags("flags", 6, 3, &elsewhere).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().starts_with("flags has WRITTEN set, which is for writes"), "{error}");
        assert!(flags("flags", 3, 3, &elsewhere).is_ok());
        assert_eq!(reserved("reserved0", 1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
