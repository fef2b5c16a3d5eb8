//! The test server as a program, for demos and for tests in other languages.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use raskio_testserver::knobs::Knobs;
use raskio_testserver::{Body, Object, Server};

const USAGE: &str = "\
usage: raskio-testserver [--object NAME=SIZE]... [--file NAME=PATH]... [options]

Serves objects at http://127.0.0.1:PORT/NAME until standard input is closed, or a signal ends it.

  --object NAME=SIZE   SIZE bytes of the test pattern, byte i being (i*31+7) mod 251; SIZE may end in K, M, G (of 1024)
  --file NAME=PATH     a file
  --port N             0, the default, takes a free one
  --port-file FILE     writes the port to FILE once the server listens
  --delay-ms N         every reply waits so long
  --rate N             bytes a second of each reply's body
  --no-stdin           does not end with standard input
  --quiet-log          keeps no log of requests (/ctl/log): for long runs

Prints a line `object NAME SIZE crc32 XXXXXXXX` for each object (zlib's CRC-32), then `listening on http://127.0.0.1:PORT`.
Query parameters make a reply misbehave (?status=503&times=2, ?stall_after=7, ...), /ctl/stats tells the counts; both are
described in the crate's documentation, module `knobs`.
";

#[derive(Default)]
struct Arguments {
    objects: Vec<(String, Body)>,
    port: u16,
    port_file: Option<PathBuf>,
    delay: Duration,
    rate: Option<u64>,
    no_stdin: bool,
    quiet_log: bool,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(text) => {
            eprintln!("raskio-testserver: {text}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("raskio-testserver: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut parsed = Arguments::default();
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{option} needs a value"));
        match option.as_str() {
            "--help" | "-h" => return Ok(None),
            "--object" => {
                let (name, size) = named(&option, value()?)?;
                let size = size_of(&size).ok_or(format!("--object {name}={size}: {size} is no size"))?;
                parsed.objects.push((name, Body::pattern(size)));
            }
            "--file" => {
                let (name, path) = named(&option, value()?)?;
                let body = Body::file(&path).map_err(|error| format!("cannot serve the file {path}: {error}"))?;
                parsed.objects.push((name, body));
            }
            "--port" => parsed.port = number(&option, &value()?)?,
            "--port-file" => parsed.port_file = Some(value()?.into()),
            "--delay-ms" => parsed.delay = Duration::from_millis(number(&option, &value()?)?),
            "--rate" => parsed.rate = Some(number(&option, &value()?)?).filter(|rate| *rate > 0),
            "--no-stdin" => parsed.no_stdin = true,
            "--quiet-log" => parsed.quiet_log = true,
            _ => return Err(format!("unknown option {option}")),
        }
    }
    if parsed.objects.is_empty() {
        return Err("nothing to serve: --object or --file is needed".into());
    }
    Ok(Some(parsed))
}

fn named(option: &str, value: String) -> Result<(String, String), String> {
    let (name, value) = value.split_once('=').ok_or(format!("{option} {value}: NAME=... is needed"))?;
    Ok((name.trim_start_matches('/').into(), value.into()))
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{option} {value}: {value} is not a number in its range"))
}

fn size_of(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => 1_u64,
    };
    text.strip_suffix(['K', 'M', 'G']).unwrap_or(text).parse::<u64>().ok()?.checked_mul(unit)
}

fn serve(arguments: Arguments) -> io::Result<()> {
    raskio_testserver::raise_open_file_limit();
    let knobs = Knobs::new().delay(arguments.delay);
    let knobs = match arguments.rate {
        Some(rate) => knobs.rate(rate),
        None => knobs,
    };
    let mut builder = Server::builder().port(arguments.port).knobs(knobs);
    if arguments.quiet_log {
        builder = builder.max_log(0);
    }
    let server = builder.try_start().map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on 127.0.0.1:{}: {error}", arguments.port))
    })?;
    let mut out = io::stdout().lock();
    for (name, body) in arguments.objects {
        writeln!(out, "object {name} {} crc32 {:08x}", body.len(), body.crc32()?)?;
        server.put(&format!("/{name}"), Object::new(body));
    }
    if let Some(file) = &arguments.port_file {
        write_whole(file, &format!("{}\n", server.port()))?;
    }
    writeln!(out, "listening on {}", server.url(""))?;
    out.flush()?;
    if arguments.no_stdin {
        loop {
            std::thread::park();
        }
    }
    io::stdin().lock().bytes().take_while(Result::is_ok).for_each(drop);
    Ok(())
}

/// In one step, so that whoever waits for the file never reads half of it.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    let mut draft = file.as_os_str().to_owned();
    draft.push(".part");
    std::fs::write(&draft, text)
        .and_then(|()| std::fs::rename(&draft, file))
        .map_err(|error| io::Error::new(error.kind(), format!("cannot write the port to {}: {error}", file.display())))
}
