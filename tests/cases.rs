//! The table of cases in `CASES.md` is true: every test that it names exists, and every case has one or says why not.

// Linked like the other tests, with `--wrap`, whose names are defined there.
use raskio as _;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn every_test_that_the_table_names_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let table = std::fs::read_to_string(folder.join("CASES.md")).expect("tests/CASES.md");
    let mut numbers = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, _, _, tests] = cells[..] else { panic!("not five cells: {row}") };
        assert!(numbers.insert(number.parse::<u32>().expect(number)), "case {number} is there twice");
        if tests.starts_with("not yet: needs ") {
            continue;
        }
        let (file, names) = tests.trim_start_matches('`').split_once("`: ").unwrap_or_else(|| panic!("{tests}"));
        let source = std::fs::read_to_string(folder.join(format!("{file}.rs")))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        for name in names.split(['.', '(']).next().unwrap_or_default().split(", ") {
            assert!(
                source.contains(&format!("#[test]\nfn {}() {{", name.trim())),
                "case {number}: no {name} in {file}.rs"
            );
        }
    }
    assert_eq!(numbers, (1..=38).collect(), "the cases that are there");
}
