//! The proof that the fuzzer is on: only one that sees which branches were taken finds these four bytes in seconds.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if data.first() == Some(&b'R')
        && data.get(1) == Some(&b'a')
        && data.get(2) == Some(&b's')
        && data.get(3) == Some(&b'k')
    {
        panic!("planted: the four bytes were found");
    }
});
