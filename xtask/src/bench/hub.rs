//! `cargo xtask bench hub`: how much a hub takes, how soon people see it, and how fast it plays a session back.
//!
//! ```text
//!   one sabir shell ──► hub                     events a second until the last one is durable
//!   1,000 shells ──► hub ──► 1,000 watchers     from the moment that a message is due to the moment that it is seen
//!   hub ──► somebody who reads 1,000,000        MB a second
//! ```
//!
//! Everything runs on one machine, and those who load it take their share of its cores.

mod load;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use load::Loaded;
pub(crate) use load::{LoadArguments, load};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many lines the one shell's agent prints
    #[arg(long, default_value_t = 200_000)]
    lines: u64,
    /// How many sessions are live, each with a shell and a watcher
    #[arg(long, default_value_t = 1_000)]
    sessions: u32,
    /// How many events there are in a second at first, in all sessions together
    #[arg(long, default_value_t = 20)]
    per_second: u32,
    /// How long each rate is kept up, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// How many events the session has that is played back
    #[arg(long, default_value_t = 1_000_000)]
    replay: u64,
    /// Where to write; it is emptied
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// A hub that runs.
struct Hub {
    child: Child,
    address: String,
}

impl Hub {
    fn start(sabir: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(sabir);
        command.args(["hub", "--open", "--listen", "127.0.0.1:0", "--max-rate", "10000000", "--data"]).arg(folder);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().context("could not start the hub")?;
        let mut talk = BufReader::new(child.stderr.take().context("it says something")?);
        let mut line = String::new();
        talk.read_line(&mut line)?;
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next()).context("it says where it is")?;
        let address = address.to_owned();
        std::thread::spawn(move || std::io::copy(&mut talk, &mut std::io::sink()));
        Ok(Self { child, address })
    }

    /// Memory in MB: now, and the most that it was.
    fn memory(&self) -> (f64, f64) {
        super::measure::memory_of(self.child.id())
    }

    fn get(&self, path: &str) -> Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(&self.address)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
        Ok(BufReader::with_capacity(1 << 20, stream))
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    super::build()?;
    let (sabir, xtask) = (super::built("sabir"), super::built("xtask"));
    let folder = arguments.folder.clone().unwrap_or_else(|| crate::root().join("target/bench-hub"));
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    one_shell(arguments, &sabir, &folder)?;
    many_shells(arguments, &sabir, &xtask, &folder)?;
    play_back(arguments, &sabir, &xtask, &folder)?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// One shell, from the start of the program to the acknowledgement of its last message.
fn one_shell(arguments: &Arguments, sabir: &Path, folder: &Path) -> Result<()> {
    let hub = Hub::start(sabir, &folder.join("one"))?;
    let lines = folder.join("lines");
    let mut file = BufWriter::new(File::create(&lines)?);
    for number in 0..arguments.lines {
        writeln!(file, "line {number} of an agent that has something to say")?;
    }
    file.flush()?;
    let start = Instant::now();
    let mut command = Command::new(sabir);
    command.args(["shell", "--hub", &format!("ws://{}", hub.address), "--session", "one", "--flush", "10m", "--", "localexec"]);
    command.arg(format!("cat '{}'", lines.display())).env("SABIR_HOME", folder.join("shell"));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let wall = start.elapsed().as_secs_f64();
    ensure!(status.success(), "the shell failed ({status})");
    let (mut bytes, mut messages) = (0, 0_u64);
    for line in hub.get("/v1/sessions/one/log")?.lines() {
        let line = line?;
        if line.starts_with('{') {
            bytes += line.len() as u64 + 1;
            messages += 1;
        }
    }
    let bare = synced_loop(&folder.join("bare"), messages, bytes)?;
    let (_, peak) = hub.memory();
    let megabytes = |seconds: f64| bytes as f64 / seconds / 1e6;
    println!("one shell, {} lines, {messages} messages of {} bytes on average", arguments.lines, bytes / messages.max(1));
    println!("  {:<58} {:>12} {:>9}", "", "messages/s", "MB/s");
    println!(
        "  {:<58} {:>12.0} {:>9.1}",
        "sabir shell, until all is durable at the hub",
        messages as f64 / wall,
        megabytes(wall)
    );
    println!("  {:<58} {:>12.0} {:>9.1}", "bare loop, fdatasync after 100 or 20 ms", messages as f64 / bare, megabytes(bare));
    println!("  shell and hub / bare loop  {:.2} × the messages;  peak of the hub {peak:.0} MB", bare / wall);
    Ok(())
}

/// How long it takes to write as much and sync it, in seconds.
fn synced_loop(path: &Path, messages: u64, bytes: u64) -> Result<f64> {
    let message = vec![b'x'; usize::try_from(bytes / messages.max(1))?];
    let mut file = File::create(path)?;
    let start = Instant::now();
    let (mut group, mut began) = (Vec::new(), Instant::now());
    for number in 1..=messages {
        group.extend_from_slice(&message);
        if number.is_multiple_of(100) || number == messages || began.elapsed() >= Duration::from_millis(20) {
            file.write_all(&group)?;
            file.sync_data()?;
            group.clear();
            began = Instant::now();
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Many shells and watchers at a rate that grows until the hub does not keep up.
fn many_shells(arguments: &Arguments, sabir: &Path, xtask: &Path, folder: &Path) -> Result<()> {
    let hub = Hub::start(sabir, &folder.join("many"))?;
    println!("\n{} live sessions with a watcher each, {} s at each rate", arguments.sessions, arguments.seconds);
    println!("  {:>12} {:>12} {:>10} {:>10} {:>10} {:>10}", "events/s", "seen", "p50 ms", "p99 ms", "most ms", "hub MB");
    let mut rate = arguments.per_second;
    loop {
        let options = [
            "--sessions",
            &arguments.sessions.to_string(),
            "--per-second",
            &rate.to_string(),
            "--seconds",
            &arguments.seconds.to_string(),
        ];
        let output =
            Command::new(xtask).args(["bench", "hub-load", &hub.address]).args(options).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "the load failed ({})", output.status);
        let loaded: Loaded = serde_json::from_slice(&output.stdout)?;
        let (now, _) = hub.memory();
        println!(
            "  {rate:>12} {:>11.1}% {:>10.1} {:>10.1} {:>10.1} {now:>10.0}",
            loaded.seen as f64 * 100.0 / loaded.sent.max(1) as f64,
            loaded.p50,
            loaded.p99,
            loaded.most
        );
        if !loaded.keeps_up() {
            println!("  it does not keep up with {rate} events a second");
            break;
        }
        rate = rate.saturating_mul(if rate < 1_000 { 5 } else { 2 });
    }
    println!("  peak of the hub {:.0} MB", hub.memory().1);
    Ok(())
}

/// A long session, read from its beginning to its end.
fn play_back(arguments: &Arguments, sabir: &Path, xtask: &Path, folder: &Path) -> Result<()> {
    let hub = Hub::start(sabir, &folder.join("long"))?;
    let start = Instant::now();
    let count = arguments.replay.to_string();
    let status = Command::new(xtask).args(["bench", "hub-load", &hub.address, "--one", &count]).status()?;
    ensure!(status.success(), "the load failed ({status})");
    let taken = start.elapsed().as_secs_f64();
    println!(
        "\na session of {count} events, which took {taken:.1} s to be kept ({:.0} a second)",
        arguments.replay as f64 / taken
    );
    println!("  {:<34} {:>10} {:>9} {:>12}", "", "MB", "MB/s", "events/s");
    let last = format!("\"seq\":{count},");
    for (name, path) in
        [("log (one answer)", "/v1/sessions/long/log"), ("events (server-sent, as watched)", "/v1/sessions/long/events")]
    {
        let start = Instant::now();
        let bytes = read_until(&mut hub.get(path)?, last.as_bytes())?;
        let seconds = start.elapsed().as_secs_f64();
        let rate = arguments.replay as f64 / seconds;
        println!("  {name:<34} {:>10.1} {:>9.1} {rate:>12.0}", bytes as f64 / 1e6, bytes as f64 / 1e6 / seconds);
    }
    println!("  peak of the hub {:.0} MB", hub.memory().1);
    Ok(())
}

/// Reads until something comes, or the end; how much that was.
fn read_until(stream: &mut BufReader<TcpStream>, last: &[u8]) -> Result<u64> {
    let (mut bytes, mut piece, mut tail) = (0, vec![0; 1 << 20], Vec::new());
    loop {
        let count = stream.read(&mut piece)?;
        ensure!(count > 0, "it ended early");
        bytes += count as u64;
        tail.extend_from_slice(&piece[..count]);
        // Only the last piece can have it, so it is looked for at the end alone.
        if tail.len() >= 4096 {
            tail.drain(..tail.len() - 4096);
        }
        if tail.windows(last.len()).any(|window| window == last) {
            return Ok(bytes);
        }
    }
}
