//! The plugin, with a recording profiler and without any: what is in the counters arrives with the right values.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILES: [&str; 8] =
    ["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors"];

struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Machine {
        let machine = Machine(std::env::temp_dir().join(format!("raskio-nic-{name}-{}", std::process::id())));
        for (name, flags) in [("eth0", "0x1003"), ("lo", "0x9")] {
            let statistics = machine.statistics(name);
            std::fs::create_dir_all(&statistics).unwrap();
            FILES.iter().for_each(|file| std::fs::write(statistics.join(file), "1000\n").unwrap());
            std::fs::write(statistics.with_file_name("flags"), flags).unwrap();
            std::fs::write(statistics.with_file_name("speed"), "400000\n").unwrap();
            std::fs::write(statistics.with_file_name("operstate"), "unknown\n").unwrap();
        }
        // As Linux has beside the interfaces.
        std::fs::write(machine.0.join("net/bonding_masters"), "").unwrap();
        machine
    }

    fn statistics(&self, name: &str) -> PathBuf {
        self.0.join("net").join(name).join("statistics")
    }

    /// At once, as the kernel does it: never an empty file.
    fn set(&self, file: &str, text: &str) {
        let new = self.0.join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.statistics("eth0").join(file)).unwrap();
    }

    fn plugin(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raskio-nsys-nic"));
        command.arg("--sysfs").arg(self.0.join("net")).args(arguments).env_remove("NVTX_INJECTION64_PATH");
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compiled_recorder(into: &Path) -> PathBuf {
    let nvtx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nvtx");
    let library = into.join("recorder.so");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(nvtx.join("vendor"))
        .arg(nvtx.join("recorder/recorder.c"))
        .arg("-o")
        .arg(&library)
        .status();
    assert!(status.unwrap().success(), "the recorder does not compile");
    library
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn failed(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    text(&output.stderr)
}

#[test]
fn counters_arrive_at_the_profiler_with_their_values() {
    let machine = Machine::new("values");
    let record = machine.0.join("record");
    let mut plugin = machine
        .plugin(&["-i200000", "--count=4", "--device=eth*"])
        .env("NVTX_INJECTION64_PATH", compiled_recorder(&machine.0))
        .env("RASKIO_NVTX_RECORD", &record)
        .spawn()
        .unwrap();
    let lines = || std::fs::read_to_string(&record).unwrap_or_default();
    let wait_for_samples = |count: usize| {
        let begin = std::time::Instant::now();
        while lines().matches("sample\t1\t").count() < count {
            assert!(begin.elapsed().as_secs() < 20, "no sample: {}", lines());
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    };
    wait_for_samples(1);
    machine.set("rx_bytes", "1000001000\n");
    machine.set("tx_dropped", "1007\n");
    wait_for_samples(2);
    std::fs::remove_dir_all(machine.statistics("eth0").parent().unwrap()).unwrap();
    assert!(plugin.wait().unwrap().success());
    let record = lines();
    assert!(!record.contains("fault"), "{record}");
    let lines: Vec<&str> = record.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "domain\tRaskIO NIC",
            "schema\t1\teth0\trx[B/s]\ttx[B/s]\tdropped[packets]\terrors[packets]",
            "counters\t1\t1\tRaskIO NIC\teth0"
        ]
    );
    assert!(lines.contains(&"sample\t1\t0\t0\t0\t0"), "{record}");
    let moved =
        lines.iter().find(|line| line.starts_with("sample\t1\t") && !line.starts_with("sample\t1\t0\t")).unwrap();
    let values: Vec<f64> = moved.split('\t').skip(2).map(|value| value.parse().unwrap()).collect();
    // A billion bytes in 0.2 s, or in a little less or more on a busy machine.
    assert!(values[0] < 20e9 && values[0] > 0.2e9, "{values:?}");
    assert_eq!(values[1..], [0.0, 7.0, 0.0]);
    // The total is a group of its own, and moves alike.
    assert!(lines.contains(&"counters\t2\t2\tRaskIO NIC\ttotal"), "{record}");
    assert!(lines.contains(&moved.replace("sample\t1", "sample\t2").as_str()), "{record}");
    assert_eq!(lines.iter().filter(|line| **line == "unavailable\t1\t2").count(), 1, "{record}");
}

#[test]
fn without_a_profiler_it_says_what_to_do() {
    let machine = Machine::new("alone");
    assert!(failed(&machine.plugin(&["-n", "1"]).output().unwrap()).contains("no profiler is there"));
    let output = machine.plugin(&["-n", "2", "-i", "1000", "--csv"]).output().unwrap();
    assert_eq!(text(&output.stdout).lines().count(), 5, "{output:?}");
    let output = machine.plugin(&["-n2", "-i1000", "--json", "-d", "lo", "-d", "eth0"]).output().unwrap();
    assert_eq!(text(&output.stdout).matches("\"name\":\"lo\"").count(), 2, "{output:?}");
    for bad in [&["-i", "x"][..], &["-i"], &["--nonsense"], &["-n", "0"]] {
        assert!(failed(&machine.plugin(bad).output().unwrap()).contains("error: "), "{bad:?}");
    }
}

#[test]
fn the_manifest_names_the_program_that_is_built() {
    let manifest = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("nsys-plugin.yaml")).unwrap();
    let field =
        |name: &str| manifest.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap().to_owned();
    assert_eq!(
        Path::new(env!("CARGO_BIN_EXE_raskio-nsys-nic")).file_name().unwrap().to_str().unwrap(),
        field("ExecutablePath")
    );
    assert_eq!(field("PluginName"), "raskio_nic");
    assert!(!field("Description").is_empty());
}
