//! The tool on a terminal and in a pipe: what is shown where, and how it ends.

mod support;

use raskio_testserver::{Object, Reply, Server, get};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;
use support::{Dir, command, json, run, texts};

/// The tool with standard error on a terminal of so many columns: standard output, and what the terminal was sent.
fn on_terminal(dir: &Dir, columns: u16, arguments: &[&str]) -> (String, String) {
    on_terminal_named("xterm", dir, columns, arguments)
}

fn on_terminal_named(term: &str, dir: &Dir, columns: u16, arguments: &[&str]) -> (String, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let child = command(dir, arguments).env("TERM", term).stdout(Stdio::piped()).stderr(Stdio::from(terminal)).spawn();
    let child = child.unwrap();
    let reader = std::thread::spawn(move || {
        let (mut shown, mut block) = (Vec::new(), [0; 4096]);
        let mut master = File::from(master);
        // EIO: nobody holds the other end any more.
        while let Ok(n @ 1..) = master.read(&mut block) {
            shown.extend_from_slice(&block[..n]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    });
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    (texts(&output).0, reader.join().unwrap())
}

fn slow_object(server: &Server) -> String {
    server.put("/x", Object::pattern(2_000_000));
    server.script(get("/x"), [Reply::object().delay(Duration::from_millis(40))]);
    server.url("/x")
}

#[test]
fn a_terminal_gets_a_bar_with_rate_and_eta_and_a_pipe_gets_neither() {
    let (server, dir) = (Server::start(), Dir::new());
    let url = slow_object(&server);
    let copy = ["cp", &url, "x", "--chunk-size", "100000", "--memory", "200000"];
    let (out, shown) = on_terminal(&dir, 100, &copy);
    for part in ["x ", " % ", "/1.91 MiB", "iB/s", "ETA ", "\x1b["] {
        assert!(shown.contains(part), "no {part:?} in {shown:?}");
    }
    assert!(out.starts_with("x: 2000000 bytes in ") && out.lines().count() == 1, "{out:?}");

    let (out, err) = texts(&run(&dir, &copy));
    assert!(!err.contains('\x1b') && !err.contains('\r') && !out.contains('\x1b'), "{out:?} {err:?}");
    assert!(out.starts_with("x: 2000000 bytes in ") && err.is_empty(), "{out:?} {err:?}");
    // Nothing at all, on request.
    let (out, shown) = on_terminal(&dir, 100, &[&copy[..], &["-q"]].concat());
    assert_eq!((out.as_str(), shown.as_str()), ("", ""));
    // Narrower than anything that is shown.
    let (out, _) = on_terminal(&dir, 1, &copy);
    assert!(out.starts_with("x: 2000000 bytes in "), "{out:?}");
    // One that shows commands instead of obeying them.
    for term in ["dumb", ""] {
        let (_, shown) = on_terminal_named(term, &dir, 100, &copy);
        assert!(!shown.contains('\x1b') && !shown.contains("ETA"), "{term:?}: {shown:?}");
    }
}

#[test]
fn stat_shows_what_there_is_as_text_and_as_json() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(1536).etag("\"tag\""));
    let url = server.url("/x");
    let (out, err) = texts(&run(&dir, &["stat", &url]));
    assert!(
        out.contains("size  1536 bytes (1.50 KiB)") && out.contains("etag  \"tag\"") && err.is_empty(),
        "{out} {err}"
    );
    let lines = json(&run(&dir, &["stat", "--json", &url, &server.url("/none"), &url]), 1);
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["size"], &lines[0]["kind"], &lines[0]["etag"]),
        (&1536.into(), &"http".into(), &"\"tag\"".into())
    );
    assert_eq!(lines[1]["error"]["status"], "NOT_FOUND");
    assert_eq!(lines[2]["size"], 1536);
}

#[test]
fn bench_recommends_one_of_what_it_measured_and_draws_it() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(4 << 20));
    let url = server.url("/x");
    let arguments = [
        "--json",
        "bench",
        &url,
        "--seconds",
        "0.2",
        "--reactors",
        "1,2",
        "--requests",
        "2,4",
        "--task-size",
        "64K,8M",
        "--plot",
        "p.svg",
    ];
    let output = run(&dir, &arguments);
    let [all] = &json(&output, 0)[..] else { panic!("{output:?}") };
    let results = all["results"].as_array().unwrap();
    // 8 MiB is more than there is.
    assert_eq!(results.len(), 4);
    assert!(texts(&output).1.contains("4 settings are left out"), "{output:?}");
    assert!(
        results.iter().all(|result| result["bytes_per_s"].as_f64().unwrap() > 1e6 && result["errors"] == 0),
        "{all}"
    );
    let best = &results[all["recommended"].as_u64().unwrap() as usize];
    let fastest = results.iter().map(|result| result["bytes_per_s"].as_f64().unwrap()).fold(0.0, f64::max);
    assert!(best["bytes_per_s"].as_f64().unwrap() >= 0.95 * fastest, "{all}");
    assert_eq!(all["environment"]["KVIKIO_REMOTE_IO_NUM_REACTORS"], best["reactors"].to_string());
    assert_eq!(all["environment"]["KVIKIO_TASK_SIZE"], "65536");
    let plot = std::fs::read_to_string(dir.path("p.svg")).unwrap();
    assert_eq!(plot.matches("<title>").count(), 4, "a point for each measurement");
    assert!(plot.starts_with("<svg ") && plot.ends_with("</svg>\n"));
}

#[test]
fn a_server_that_fails_ends_a_bench_with_its_error() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(1 << 20));
    server.script(get("/x"), [Reply::status(403)]);
    let output = run(
        &dir,
        &[
            "--json",
            "bench",
            &server.url("/x"),
            "--seconds",
            "0.1",
            "--reactors",
            "1",
            "--requests",
            "2",
            "--task-size",
            "64K",
        ],
    );
    assert_eq!(json(&output, 1)[0]["error"]["status"], "PERMISSION_DENIED");
}

#[test]
fn a_setting_that_fails_costs_a_bench_no_other() {
    let (server, dir) = (Server::start(), Dir::new());
    server.put("/x", Object::pattern(1 << 20));
    // As a server that refuses large ranges.
    server.on(get("/x"), |request| {
        let large = (0..4).map(|n| format!("{}-{}", n << 18, ((n + 1) << 18) - 1));
        let large = large
            .into_iter()
            .any(|range| request.range_text().is_some_and(|asked| asked.trim_start_matches("bytes=") == range));
        large.then(|| Reply::status(403))
    });
    let url = server.url("/x");
    let bench = |sizes: &str| {
        let arguments =
            ["bench", "--json", &url, "--seconds", "0.1", "--reactors", "1", "--requests", "2", "--task-size", sizes];
        run(&dir, &arguments)
    };
    let all = &json(&bench("64K,256K"), 0)[0];
    let results = all["results"].as_array().unwrap();
    assert!(results.len() == 2 && results[0]["errors"] == 0 && results[0]["error"].is_null(), "{all}");
    assert_eq!(
        (&all["recommended"], &results[1]["error"]["status"]),
        (&0.into(), &"PERMISSION_DENIED".into()),
        "{all}"
    );
    assert!(results[1]["cpu_s_per_gb"].is_null(), "{all}");
    // Nothing else works either.
    assert_eq!(json(&bench("256K"), 1)[0]["error"]["status"], "PERMISSION_DENIED");
}

#[test]
fn nic_shows_rates_in_every_form() {
    let dir = Dir::new();
    let make = |name: &str, flags: &str, bytes: u64| {
        let statistics = dir.path("net").join(name).join("statistics");
        std::fs::create_dir_all(&statistics).unwrap();
        for file in
            ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors"]
        {
            std::fs::write(statistics.join(file), format!("{bytes}\n")).unwrap();
        }
        for (file, text) in [("flags", flags), ("operstate", "up\n"), ("speed", "25000\n")] {
            std::fs::write(statistics.parent().unwrap().join(file), text).unwrap();
        }
    };
    make("eth0", "0x1003\n", 5);
    make("lo", "0x9\n", 5);
    let nic = |more: &[&str]| run(&dir, &[&["nic", "--sysfs", "net", "-i", "20", "-n", "2"], more].concat());
    let lines = json(&nic(&["--json"]), 0);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["interfaces"].as_array().unwrap().len(), 1, "loopback is left out");
    assert_eq!(
        (&lines[1]["interfaces"][0]["name"], &lines[1]["interfaces"][0]["speed_mbit"]),
        (&"eth0".into(), &25000.into())
    );
    let lines = json(&nic(&["--json", "-d", "l?,eth*"]), 0);
    assert_eq!(lines[0]["interfaces"].as_array().unwrap().len(), 2);
    let (csv, _) = texts(&nic(&["--csv"]));
    let rows: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(rows, [9; 5], "{csv}");
    let (table, _) = texts(&nic(&[]));
    assert_eq!((table.lines().count(), table.matches("eth0").count()), (3, 2), "{table}");
    assert_eq!(nic(&["-d", "none"]).status.code(), Some(1));
    // Up, and nothing but loopback: it says so.
    std::fs::remove_dir_all(dir.path("net/eth0")).unwrap();
    assert!(texts(&nic(&[])).1.contains("no interface is up"));
    assert_eq!(nic(&["--csv", "--json"]).status.code(), Some(2));
}

#[test]
fn completions_and_help_are_there_and_no_command_is_a_mistake() {
    let dir = Dir::new();
    for shell in ["bash", "zsh", "fish"] {
        let (out, _) = texts(&run(&dir, &["completions", shell]));
        assert!(out.contains("raskio") && out.contains("checksum"), "{shell}");
    }
    for arguments in [&["--help"][..], &["cp", "--help"], &["--version"]] {
        assert_eq!(run(&dir, arguments).status.code(), Some(0));
    }
    for arguments in [&[][..], &["nonsense"], &["stat"], &["stat", "--nonsense", "x"]] {
        assert_eq!(run(&dir, arguments).status.code(), Some(2), "{arguments:?}");
    }
}
