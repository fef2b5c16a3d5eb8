//! The command-line tool `raskio`.
//!
//! | file | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`stat`], [`cp`], [`bench`], [`nic`] | the commands |
//! | [`remote`], [`memory`] | clients, objects, and memory lent to reads |
//! | [`output`], [`failure`], [`units`] | results, errors and exit codes, numbers as people write them |
//!
//! Standard output holds results only; progress, warnings and errors go to standard error.
#![deny(unsafe_code)]

mod args;
mod bench;
mod cp;
mod failure;
#[allow(unsafe_code)]
mod memory;
mod nic;
mod output;
mod remote;
mod stat;
mod stop;
mod units;

use failure::{Failure, Outcome};
use output::Output;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = args::command().get_matches();
    let output = Output { json: matches.get_flag("json") };
    let outcome = match matches.get_count("verbose") {
        0 => Ok(()),
        1 => output::log_to_stderr(::log::LevelFilter::Info),
        _ => output::log_to_stderr(::log::LevelFilter::Debug),
    };
    let outcome = outcome.and_then(|()| match matches.subcommand() {
        Some(("stat", matches)) => stat::run(matches, &output),
        Some(("cp", matches)) => cp::run(matches, &output),
        Some(("bench", matches)) => bench::run(matches, &output),
        Some(("nic", matches)) => nic::run(matches, &output),
        Some(("completions", matches)) => completions(matches),
        _ => Err(Failure::usage("no command was given; try --help")),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.code),
    }
}

fn completions(matches: &clap::ArgMatches) -> Outcome<()> {
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") {
        let mut text = Vec::new();
        clap_complete::generate(*shell, &mut args::command(), "raskio", &mut text);
        output::print(String::from_utf8_lossy(&text).trim_end());
    }
    Ok(())
}
