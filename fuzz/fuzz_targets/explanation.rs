//! The body of an error: what is told of it is one short line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raskio::transport::reactor::attempt::explanation;

fuzz_target!(|data: &[u8]| {
    if let Some(words) = explanation(data) {
        assert!(!words.is_empty() && !words.chars().any(char::is_control), "{words:?}");
        // Two times 200 characters, each escaped to ten at most, and what stands between them.
        assert!(words.chars().count() <= 2 * 10 * 200 + 8, "{} characters", words.chars().count());
    }
});
