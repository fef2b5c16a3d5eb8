//! Standard error without `std`'s lock, which a fork in another thread can leave locked for ever in the child.

use std::io::{Error, Result, Write};

/// File descriptor 2, unbuffered: one `write` a record, so that the lines of several threads do not mix.
#[derive(Debug)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        // SAFETY: `bytes` is valid for reads of its length.
        let written = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(written).map_err(|_| Error::last_os_error())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
