//! What `sabir parse` is compared with: the least that any reader of such a stream must do, and the usual way.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use sabir_agents::claude_code::WireMessage;
use sabir_core::line::{LineBuffer, RawLine};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    kind: Kind,
    /// A file, or a folder with files
    file: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Looks for files and asks each for its size and time, and reads none
    Walk,
    /// Reads and splits lines
    Lines,
    /// The same with nothing but the standard library
    StdLines,
    /// Also parses each into the struct that the dialect reads, which leaves texts as the JSON strings they are
    Wire,
    /// Also parses each into an ordinary struct with the same fields, whose texts are borrowed where they can be
    Typed,
    /// Also parses each into a `serde_json::Value` and writes that
    Value,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut files = vec![arguments.file.clone()];
    if arguments.file.is_dir() {
        files.clear();
        super::usage::files(&arguments.file, &mut files)?;
    }
    match arguments.kind {
        Kind::Walk => {
            for file in files {
                black_box(std::fs::metadata(file)?);
            }
            return Ok(());
        }
        Kind::StdLines => return files.iter().try_for_each(std_lines),
        _ => {}
    }
    let mut lines = LineBuffer::default();
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let mut each = |line: RawLine<'_>| -> Result<()> {
        match arguments.kind {
            Kind::Walk | Kind::Lines | Kind::StdLines => drop(black_box(line)),
            Kind::Wire => {
                let text = line.text();
                let message: WireMessage<'_> = serde_json::from_str(&text).context("a line of our own parses")?;
                drop(black_box(message));
            }
            Kind::Typed => {
                let text = line.text();
                let message: ordinary::Message<'_> = serde_json::from_str(&text).context("a line of our own parses")?;
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
    for file in files {
        let mut file = File::open(file)?;
        lines.restart();
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
        lines.finish().map_or(Ok(()), &mut each)?;
    }
    Ok(())
}

/// What one would write first.
fn std_lines(file: &PathBuf) -> Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, File::open(file)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        black_box(&line);
        line.clear();
    }
    Ok(())
}

/// What one would declare to read such a stream with serde: the fields that a reader needs, texts as strings.
#[allow(dead_code, reason = "parsing is measured, not what is parsed")]
mod ordinary {
    use sabir_core::json::{Str, StringOr};
    use serde::Deserialize;
    use serde_json::value::RawValue;

    #[derive(Deserialize)]
    pub(super) struct Message<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        subtype: Option<Str<'a>>,
        #[serde(borrow)]
        message: Option<ApiMessage<'a>>,
        #[serde(borrow)]
        event: Option<StreamEvent<'a>>,
        #[serde(borrow)]
        api_message_id: Option<Str<'a>>,
        #[serde(borrow)]
        parent_tool_use_id: Option<Str<'a>>,
        #[serde(borrow)]
        timestamp: Option<Str<'a>>,
        #[serde(borrow)]
        tool_use_result: Option<&'a RawValue>,
    }

    #[derive(Deserialize)]
    struct ApiMessage<'a> {
        #[serde(borrow)]
        id: Option<Str<'a>>,
        #[serde(borrow)]
        model: Option<Str<'a>>,
        #[serde(borrow)]
        content: Option<StringOr<'a, Vec<Block<'a>>>>,
        usage: Option<Usage>,
    }

    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        #[serde(borrow)]
        text: Option<Str<'a>>,
        #[serde(borrow)]
        thinking: Option<Str<'a>>,
        #[serde(borrow)]
        id: Option<Str<'a>>,
        #[serde(borrow)]
        name: Option<Str<'a>>,
        #[serde(borrow)]
        input: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_use_id: Option<Str<'a>>,
        #[serde(borrow)]
        content: Option<StringOr<'a, Vec<Part<'a>>>>,
        is_error: Option<bool>,
    }

    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        text: Option<Str<'a>>,
    }

    #[derive(Deserialize)]
    struct Usage {
        input_tokens: Option<u64>,
        output_tokens: Option<u64>,
        cache_read_input_tokens: Option<u64>,
        cache_creation_input_tokens: Option<u64>,
    }

    #[derive(Deserialize)]
    struct StreamEvent<'a> {
        #[serde(borrow)]
        r#type: Str<'a>,
        index: Option<u32>,
        #[serde(borrow)]
        delta: Option<Delta<'a>>,
        #[serde(borrow)]
        content_block: Option<Block<'a>>,
        #[serde(borrow)]
        message: Option<ApiMessage<'a>>,
        usage: Option<Usage>,
    }

    #[derive(Deserialize)]
    struct Delta<'a> {
        #[serde(borrow)]
        text: Option<Str<'a>>,
        #[serde(borrow)]
        thinking: Option<Str<'a>>,
        #[serde(borrow)]
        stop_reason: Option<Str<'a>>,
    }
}
