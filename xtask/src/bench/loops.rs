//! What `sabir parse` is compared with: the least that any reader of such a stream must do, and the usual way.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sabir_core::agent::claude_code::WireMessage;
use sabir_core::line::{LineBuffer, RawLine};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    kind: Kind,
    file: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Reads and splits lines
    Lines,
    /// Also parses each into the struct that the dialect reads
    Typed,
    /// Also parses each into a `serde_json::Value` and writes that
    Value,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut file = File::open(&arguments.file)?;
    let mut lines = LineBuffer::default();
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let mut each = |line: RawLine<'_>| -> Result<()> {
        match arguments.kind {
            Kind::Lines => drop(black_box(line)),
            Kind::Typed => {
                let text = line.text();
                let message: WireMessage<'_> = serde_json::from_str(&text).context("a line of our own parses")?;
                drop(black_box(message));
            }
            Kind::Value => {
                let value: serde_json::Value = serde_json::from_slice(line.bytes)?;
                serde_json::to_writer(&mut out, &value)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    };
    loop {
        let count = file.read(lines.space())?;
        lines.filled(count);
        while let Some(line) = lines.next_line() {
            each(line)?;
        }
        if count == 0 {
            break;
        }
    }
    lines.finish().map_or(Ok(()), each)
}
